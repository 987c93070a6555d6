# mmc_target_flags(TARGET): the flags of every target of ours, in C, C++ and CUDA.
#
# Two warnings are cut down. A parameter may have its type's name (-Wshadow=local). gcc cannot see
# that mmci_fail() never returns MMC_OK and warns of what is set on success only
# (-Wno-maybe-uninitialized); the sanitizers and valgrind find the true ones. clang does not know
# these two.
#
# Where memory is written past its end, the process ends: return addresses are guarded
# (-fstack-protector-strong), functions of libc check the sizes that the compiler knows
# (_FORTIFY_SOURCE, which needs optimization), and what the linker resolves is read-only before
# main() begins (relro, now). Sanitizers have checks of their own instead.

# For any processor, gcc copies and zeroes structs of more than some words by rep movs and rep stos,
# which take tens of cycles to begin; a plan of few factors does so fifty times
# (-mmemcpy-strategy, -mmemset-strategy).

set(mmc_c_warnings
    -Wall
    -Wextra
    -Wpedantic
    -Wshadow=local
    -Wconversion
    -Wno-sign-conversion
    -Wno-maybe-uninitialized
    -Wvla
    -Wundef
    -Wformat=2
    -Wstrict-prototypes
    -Wmissing-prototypes)
set(mmc_cxx_warnings -Wall -Wextra -Wshadow=local)
set(mmc_sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
if(MMC_SANITIZE STREQUAL "thread")
  set(mmc_sanitizers -fsanitize=thread -fno-omit-frame-pointer)
elseif(MMC_SANITIZE STREQUAL "memory")
  set(mmc_sanitizers -fsanitize=memory -fsanitize-memory-track-origins -fno-omit-frame-pointer)
elseif(MMC_FUZZ)
  list(APPEND mmc_sanitizers -fsanitize=fuzzer-no-link)
elseif(CMAKE_C_COMPILER_ID MATCHES "Clang")
  # Python, which is not sanitized, can load the runtime first only where it is a library of its own.
  list(APPEND mmc_sanitizers -shared-libasan)
  execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libclang_rt.asan-${CMAKE_SYSTEM_PROCESSOR}.so
                  OUTPUT_VARIABLE mmc_asan_runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
  get_filename_component(mmc_asan_folder "${mmc_asan_runtime}" DIRECTORY)
endif()

set(mmc_c_copies "")
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(mmc_copies "vector_loop:512:noalign,libcall:-1:noalign")
  set(mmc_c_copies "-mmemcpy-strategy=${mmc_copies}" "-mmemset-strategy=${mmc_copies}")
endif()
set(mmc_guards "")
set(mmc_link_guards "")
if(mmc_asan_folder)
  list(APPEND mmc_link_guards "-Wl,-rpath,${mmc_asan_folder}") # the loader does not look there
endif()
# What a distribution's flags say of it stands.
set(mmc_fortify "-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2")
if("${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_RELEASE} ${CMAKE_C_FLAGS_RELWITHDEBINFO}" MATCHES "_FORTIFY_SOURCE=")
  set(mmc_fortify "")
endif()
if(NOT MMC_SANITIZE AND NOT MMC_FUZZ)
  set(mmc_guards -fstack-protector-strong
                 "$<$<NOT:$<CONFIG:Debug>>:${mmc_fortify}>")
  set(mmc_link_guards -Wl,-z,relro -Wl,-z,now)
endif()

function(mmc_target_flags target)
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
  target_compile_options(
    ${target}
    PRIVATE "$<$<COMPILE_LANGUAGE:C>:${mmc_c_warnings};${mmc_c_copies}>"
            "$<$<COMPILE_LANGUAGE:C,CXX>:${mmc_guards}>"
            "$<$<COMPILE_LANGUAGE:CXX>:${mmc_cxx_warnings}>"
            "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>")
  if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    # Constants of enums are numbers like others; clang 19's -Wextra warns where they meet other types.
    target_compile_options(
      ${target}
      PRIVATE
        "$<$<COMPILE_LANGUAGE:C,CXX>:-Wno-unknown-warning-option;-Wno-enum-enum-conversion;-Wno-enum-float-conversion>"
    )
  endif()
  target_link_options(${target} PRIVATE ${mmc_link_guards})
  if(MMC_DEVELOPER)
    target_compile_options(
      ${target} PRIVATE "$<$<COMPILE_LANGUAGE:C,CXX>:-Werror>"
                        "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xcompiler=-Werror>")
  endif()
  if(MMC_SANITIZE)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:C,CXX>:${mmc_sanitizers}>")
    target_link_options(${target} PRIVATE ${mmc_sanitizers})
  endif()
endfunction()
