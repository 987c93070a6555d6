/* test_chain.c: chains and their text form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../random.h"
#include "chain/chain.h"
#include "chain/copy.h"
#include "chain/group.h"

static const uint64_t seed = 31;

static int append(void *user, const char *bytes, size_t size) {
  strncat(user, bytes, size);
  return 0;
}

static void expect_same_factors(const mmc_chain *x, const mmc_chain *y) {
  assert_true(mmc_chain_length(x) == mmc_chain_length(y));
  for (int64_t i = 0; i < mmc_chain_length(x); i++) {
    assert_true(mmc_chain_ops(x)[i] == mmc_chain_ops(y)[i]);
    assert_true(mmc_chain_same(x, i) == mmc_chain_same(y, i));
    assert_true(mmc_chain_stored(x, i) == mmc_chain_stored(y, i));
    assert_true(mmc_chain_shared(x, i) == mmc_chain_shared(y, i));
    assert_true(mmc_chain_traits(x, i) == mmc_chain_traits(y, i));
  }
}

static void text_round_trips(void **state) {
  (void)state;
  static const struct {
    const char *text, *printed;
  } cases[] = {
      {"f32:10x30x5x60", "f32:10x30x5x60"},
      {"10x30x5x60", "f64:10x30x5x60"},
      {"c64:8x9x7:NH", "c64:8x9x7:NH"},
      {"c128:8x9x7:NN", "c128:8x9x7"},
      {"f16:10x20", "f16:10x20"},
      {"bf16:10x20x30:NT", "bf16:10x20x30:NT"},
      {"f64:0x0", "f64:0x0"},
      {"f64:007x1", "f64:7x1"},
      {"4611686018427387904x1", "f64:4611686018427387904x1"},
      {"f32:16x16x16@10000", "f32:16x16x16@10000"},
      {"4x5x6@0:TN", "f64:4x5x6@0:TN"},
      {"4x5x6@1", "f64:4x5x6"},
      {"2x2@4611686018427387904", "f64:2x2@4611686018427387904"},
      {"f64:64x64^1000", "f64:64x64^1000"},
      {"f64:64x64^1", "f64:64x64"},
      {"1x9x9^4x9^3x2@5:NTNH", "f64:1x9x9^4x9^3x2@5:NTNH"},
      {"8x8^2x8^3=1,1", "f64:8x8^5"},
      {"8x8^2x8^3=1,3", "f64:8x8^2x8^3"},
      {"f32:8x9x8x9x8=1,2,1,2", "f32:8x9x8x9x8=1,2,1,2"},
      {"8x8x8^3x8x8:NTNN=1,2,1,6", "f64:8x8x8^3x8x8:NTNN=1,2,1,6"},
      {"8x8x8x8:TNT=1,2,1", "f64:8x8x8x8:TNT=1,2,1"},
      {"135x651x77x34@32:nnN", "f64:135x651x77x34@32:nnN"},
      {"c64:4x5x6x7@3:nth", "c64:4x5x6x7@3:nth"},
      {"4x5x6x7x8@3:NtHt", "f64:4x5x6x7x8@3:NtHt"},
      {"4x5x6x7x8@3:nNth", "f64:4x5x6x7x8@3:nNth"},
      {"4x5x6x7:nnN", "f64:4x5x6x7"},
      {"4x5x6@3:nn", "f64:4x5x6@3:nn"},
      {"8x8^3x5@2:nN", "f64:8x8^3x5@2:nN"},
      {"8x9x8x9@2:nNN=1,2,1", "f64:8x9x8x9@2:nNn=1,2,1"},
      {"8x8x8x9@2:NnN=1,1,3", "f64:8x8^2x9@2:nN"},
      {"40x40x5x7@3:lower.n,t,N", "f64:40x40x5x7@3:lower.n,t,N"},
      {"40x40x5x7@3:lower,t,N", "f64:40x40x5x7@3:lower,t,N"},
      {"8x8x8x8:hermitian,zero.N,symmetric=1,2,1", "f64:8x8x8x8:symmetric,zero,symmetric=1,2,1"},
      {"i64%97:8x9x7x5@2:nnN", "i64%97:8x9x7x5@2:nnN"},
      {"f32~max-plus:8x9x7x5@2:Nnt", "f32~max-plus:8x9x7x5@2:Nnt"},
  };
  for (size_t t = 0; t < sizeof cases / sizeof cases[0]; t++) {
    mmc_chain *chain, *again;
    char printed[256] = "";
    assert_int_equal(mmc_chain_parse(NULL, cases[t].text, &chain), MMC_OK);
    assert_int_equal(mmc_chain_write(chain, append, printed), MMC_OK);
    assert_string_equal(printed, cases[t].printed);
    assert_int_equal(mmc_chain_parse(NULL, printed, &again), MMC_OK);
    expect_same_factors(chain, again);
    mmc_chain_destroy(again);
    mmc_chain_destroy(chain);
  }
}

/* What a chain says of which factors are shared, by flags and by letters; of one chain they are
 * dropped, and what is the same matrix is shared too. */
static void shared_factors_are_known(void **state) {
  (void)state;
  static const int64_t dims[] = {4, 5, 6, 4, 5, 7}, same[] = {0, 1, 2, 0, 4};
  static const bool none[5] = {false}, apart[] = {true, false, true, false, true},
                    two[] = {false, true, true, false, false}, first[] = {true, true, 0, 0, 0},
                    all[] = {true, true, true, true, true};
  const struct {
    const bool *flags;
    const int64_t *same;
    int64_t batch;
    const char *text;
  } cases[] = {{none, NULL, 3, "f64:4x5x6x4x5x7@3"},
               {apart, NULL, 3, "f64:4x5x6x4x5x7@3:nNnNn"},
               {two, NULL, 3, "f64:4x5x6x4x5x7@3:NnnNN"},
               {two, NULL, 1, "f64:4x5x6x4x5x7"},
               {two, NULL, 0, "f64:4x5x6x4x5x7@0"},
               {apart, same, 2, "f64:4x5x6x4x5x7@2:nNnnn=1,2,3,1,5"},
               {first, same, 2, "f64:4x5x6x4x5x7@2:nnNnN=1,2,3,1,5"},
               {all, NULL, 2, "f64:4x5x6x4x5x7@2:nnnnn"}};
  for (size_t t = 0; t < sizeof cases / sizeof cases[0]; t++) {
    mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
    options.batch = cases[t].batch;
    options.same = cases[t].same;
    options.shared = cases[t].flags;
    mmc_chain *chains[3];
    mmci_error error;
    assert_int_equal(mmc_chain_create_batch(NULL, MMC_F64, 5, dims, NULL, &options, &chains[0]),
                     MMC_OK);
    assert_int_equal(mmci_chain_copy(chains[0], &chains[1], &error), MMC_OK);
    assert_int_equal(mmc_chain_parse(NULL, cases[t].text, &chains[2]), MMC_OK);
    const char *letters = strrchr(cases[t].text, ':');
    for (int c = 0; c < 3; c++) {
      char printed[64] = "";
      assert_int_equal(mmc_chain_write(chains[c], append, printed), MMC_OK);
      assert_string_equal(printed, cases[t].text);
      for (int i = 0; i < 5; i++)
        assert_true(mmc_chain_shared(chains[c], i) == (letters[1 + i] == 'n'));
      mmc_chain_destroy(chains[c]);
    }
  }
  mmc_chain *chain;
  assert_int_equal(mmc_chain_parse(NULL, "4x5x6x7x8@9:nnnN", &chain), MMC_OK);
  assert_int_equal(mmci_chain_product_batch(chain, 0, 2), 1);
  assert_int_equal(mmci_chain_product_batch(chain, 1, 3), 1);
  assert_int_equal(mmci_chain_product_batch(chain, 0, 3), 1);
  assert_int_equal(mmci_chain_product_batch(chain, 1, 4), 9);
  assert_int_equal(mmci_chain_product_batch(chain, 0, 4), 9);
  mmc_chain_destroy(chain);
  assert_int_equal(mmc_chain_parse(NULL, "4x5x6x7@9:nnn", &chain), MMC_OK);
  assert_int_equal(mmci_chain_product_batch(chain, 1, 3), 1);
  assert_int_equal(mmci_chain_product_batch(chain, 0, 3), 9); /* each chain has a result */
  mmc_chain_destroy(chain);
}

static void dtypes_have_names_and_sizes(void **state) {
  (void)state;
  static const struct {
    mmc_dtype dtype;
    const char *name;
    size_t size;
  } cases[] = {{MMC_F32, "f32", 4},    {MMC_F64, "f64", 8}, {MMC_C64, "c64", 8},
               {MMC_C128, "c128", 16}, {MMC_F16, "f16", 2}, {MMC_BF16, "bf16", 2},
               {MMC_I8, "i8", 1},      {MMC_I16, "i16", 2}, {MMC_I32, "i32", 4},
               {MMC_I64, "i64", 8},    {MMC_U8, "u8", 1},   {MMC_U16, "u16", 2},
               {MMC_U32, "u32", 4},    {MMC_U64, "u64", 8}, {MMC_BOOL, "bool", 1}};
  for (size_t t = 0; t < sizeof cases / sizeof cases[0]; t++) {
    assert_string_equal(mmc_dtype_name(cases[t].dtype), cases[t].name);
    assert_int_equal(mmc_dtype_size(cases[t].dtype), cases[t].size);
  }
  for (int none = -1; none <= MMC_BOOL + 1; none += MMC_BOOL + 2) {
    assert_null(mmc_dtype_name((mmc_dtype)none));
    assert_int_equal(mmc_dtype_size((mmc_dtype)none), 0);
  }
}

static void parts_are_read(void **state) {
  (void)state;
  mmc_chain *chain;
  assert_int_equal(mmc_chain_parse(NULL, "c64:3x4x5:TH", &chain), MMC_OK);
  assert_int_equal(mmc_chain_dtype(chain), MMC_C64);
  assert_int_equal(mmc_chain_length(chain), 2);
  const int64_t dims[] = {3, 4, 5};
  assert_memory_equal(mmc_chain_dims(chain), dims, sizeof dims);
  assert_int_equal(mmc_chain_ops(chain)[0], MMC_OP_T);
  assert_int_equal(mmc_chain_ops(chain)[1], MMC_OP_H);
  assert_int_equal(mmc_chain_batch(chain), 1);
  mmc_chain_destroy(chain);
  assert_int_equal(mmc_chain_parse(NULL, "3x4x5@70:TH", &chain), MMC_OK);
  assert_int_equal(mmc_chain_batch(chain), 70);
  assert_int_equal(mmc_chain_ops(chain)[1], MMC_OP_H);
  mmc_chain_destroy(chain);
}

static void bad_text_is_named(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"",
       "chain, position 1: expected f32:, f64:, c64:, c128:, f16:, bf16:, i8: to i64:, u8: to "
       "u64:, bool: or a dim, as in "
       "f64:10x30x5x60, got the end"},
      {"f17:3x4",
       "chain, position 1: expected f32:, f64:, c64:, c128:, f16:, bf16:, i8: to i64:, u8: to "
       "u64:, bool: or a dim, as in "
       "f64:10x30x5x60, got 'f17:3x4'"},
      {"10", "chain, position 3: expected 'x' and a second dim, as in 10x30, got the end"},
      {"10x", "chain, position 4: expected a dim of 0 to 2^62, got the end"},
      {"10xx3", "chain, position 4: expected a dim of 0 to 2^62, got 'x3'"},
      {"10x-3", "chain, position 4: expected a dim of 0 to 2^62, got '-3'"},
      {"10x3 ", "chain, position 5: expected the end, got ' '"},
      {"10x3.5x2", "chain, position 5: expected 'x', got '.5x2'"},
      {"1x4611686018427387905", "chain, position 3: expected a dim of 0 to 2^62, got '46116860'"},
      {"1x99999999999999999999", "chain, position 3: expected a dim of 0 to 2^62, got '99999999'"},
      {"2x3x4:N",
       "chain, position 8: expected N, T or H for every factor, of a shared one n, t or h, got the "
       "end"},
      {"2x3x4:NX",
       "chain, position 8: expected N, T or H for every factor, of a shared one n, t or h, got "
       "'X'"},
      {"2x3x4:NTN", "chain, position 9: expected the end, got 'N'"},
      {"2x3x4@", "chain, position 7: expected a batch of 0 to 2^62 chains, got the end"},
      {"2x3x4@-1", "chain, position 7: expected a batch of 0 to 2^62 chains, got '-1'"},
      {"2x3x4@5x6", "chain, position 8: expected the end, got 'x6'"},
      {"2x3x4:NN@5", "chain, position 9: expected the end, got '@5'"},
      {"8x9^2",
       "chain, position 4: expected ^ behind a square factor only, as in 64x64^8, got '^2'"},
      {"8x8^", "chain, position 5: expected how many times, from 1, after ^, got the end"},
      {"8x8^0", "chain, position 5: expected how many times, from 1, after ^, got '0'"},
      {"8x8^2^2", "chain, position 6: expected 'x', got '^2'"},
      {"8x8^9999999999",
       "chain: expected at most 131072 factors where ^ repeats some, got 9999999999"},
      {"8x8^65536x8^65537",
       "chain: expected at most 131072 factors where ^ repeats some, got 131073"},
      {"f16:4^1000611686",
       "chain, position 6: expected 'x' and a second dim, as in 10x30, got '^1000611'"},
      {"8x8^3:NT", "chain, position 8: expected the end, got 'T'"},
      {"8x8x8=1", "chain, position 8: expected ',' and a number, got the end"},
      {"8x8x8=1,1,1", "chain, position 10: expected the end, got ',1'"},
      {"8x9x8=1,1",
       "chain, position 9: expected the number, from 1, of the first factor that is the same "
       "matrix, "
       "of the same shape, got '1'"},
      {"8x8x9:NT=1,1",
       "chain, position 12: expected the number, from 1, of the first factor that is the same "
       "matrix, "
       "of the same shape, got '1'"},
      {"8x8x9:lower",
       "chain, position 12: expected ',' and the words of the next factor, got the end"},
      {"8x8x9:lower,low",
       "chain, position 13: expected N, T, H, n, t, h, inv, lower, upper, unit, diagonal, "
       "symmetric, "
       "hermitian, spd, identity, zero, orthogonal, permutation, tridiagonal or banded(1,2), got "
       "'low'"},
      {"8x8:lower.lower",
       "chain, position 11: expected N, T, H, n, t, h, inv, lower, upper, unit, diagonal, "
       "symmetric, "
       "hermitian, spd, identity, zero, orthogonal, permutation, tridiagonal or banded(1,2), got "
       "'lower'"},
      {"8x8:zero.permutation",
       "traits[0]: expected nothing beside zero that a zero matrix is not; factor 1 is 8 x 8"},
      {"8x9:lower",
       "traits[0]: expected a square matrix for all traits but zero; factor 1 is 8 x 9"},
      {"8x8:unit", "traits[0]: expected unit beside lower, upper or diagonal; factor 1 is 8 x 8"},
      {"8x8:zero.inv", "traits[0]: a zero matrix has no inverse; factor 1 is 8 x 8"},
      {"8x9x8:(N,N", "chain, position 11: expected ').inv', which ends a group, got the end"},
      {"8x9x8:N,N).inv", "chain, position 10: expected no ')' without a '(' before, got ').inv'"},
      {"8x9x7:(N,N).inv", "inverses[0]: expected a square product, got 8 x 7"},
      {"8x8x8:(N).inv,N", "inverses[0]: expected two factors or more of the chain's 2, got 0 to 0"},
      {"8x8^2x8=1,2",
       "chain, position 11: expected the number, from 1, of the first factor that is the same "
       "matrix, "
       "of the same shape, got '2'"},
      {"8x8x8=1,3",
       "chain, position 9: expected the number, from 1, of the first factor that is the same "
       "matrix, "
       "of the same shape, got '3'"},
      {"2@5x3", "chain, position 2: expected 'x' and a second dim, as in 10x30, got '@5x3'"},
  };
  for (size_t t = 0; t < sizeof cases / sizeof cases[0]; t++) {
    mmc_chain *chain = NULL;
    mmci_error error;
    assert_int_equal(mmci_chain_parse(cases[t].text, &chain, &error), MMC_E_ARG);
    assert_null(chain);
    assert_string_equal(error.text, cases[t].message);
  }
}

/* Factors that are stored in one matrix, with different ops and traits, are the same where both
 * agree.
 */
static void versions_of_a_matrix_are_told_apart(void **state) {
  (void)state;
  static const int64_t same[] = {0, 1, 2, 1, 0, 5, 2, 5};
  mmc_chain *chain;
  mmci_error error;
  assert_int_equal(
      mmci_chain_parse("8x8x8x8x8x8x8x8x8:N,T,H.lower,T,N,lower,H.lower,lower=1,1,1,1,1,1,1,1",
                       &chain, &error),
      MMC_OK);
  for (int64_t i = 0; i < 8; i++) assert_int_equal(mmc_chain_same(chain, i), same[i]);
  for (int64_t i = 0; i < 8; i++) assert_int_equal(mmc_chain_stored(chain, i), 0);
  mmc_chain_destroy(chain);
}

/* A1 to An and then their transposes, n = 50,000: what a text that long says is read in a moment.
 */
static void long_texts_of_structure_are_read(void **state) {
  (void)state;
  enum { HALF = 50000, SIZE = 1 << 21 };
  char *text = malloc(SIZE), *at = text;
  assert_non_null(text);
  at += sprintf(at, "f64:2");
  for (int i = 0; i < 2 * HALF; i++) at += sprintf(at, "x2");
  *at++ = ':';
  for (int i = 0; i < 2 * HALF; i++) *at++ = i < HALF ? 'N' : 'T';
  for (int i = 0; i < 2 * HALF; i++) at += sprintf(at, "%c%d", i == 0 ? '=' : ',', i % HALF + 1);
  assert_true(at < text + SIZE);
  mmc_chain *chain;
  mmci_error error;
  assert_int_equal(mmci_chain_parse(text, &chain, &error), MMC_OK);
  mmc_chain_destroy(chain);
  at = text + sprintf(text, "2x2^4:");
  memset(at, '(', 256);
  at[256] = '\0';
  assert_int_equal(mmci_chain_parse(text, &chain, &error), MMC_E_ARG);
  assert_string_equal(error.text, "chain: expected at most 255 groups in parentheses, got 256");
  free(text);
}

/* Options of structure that say what cannot be. */
static void bad_structure_is_named(void **state) {
  (void)state;
  const int64_t dims[] = {4, 4, 4, 4, 5};
  const uint32_t unknown[] = {1u << 31, 0, 0, 0}, lower[] = {0, 0, 0, MMC_LOWER},
                 zero[] = {MMC_ZERO | MMC_INVERSE, 0, 0, 0};
  const int64_t later[] = {0, 2, 2, 3}, indirect[] = {0, 0, 1, 3}, negative[] = {0, -1, 2, 3},
                shape[] = {0, 1, 2, 0};
  const mmc_inverse before[] = {{.first = -1, .last = 1}}, single[] = {{.first = 1, .last = 1}},
                    past[] = {{.first = 1, .last = 4}}, oblong[] = {{.first = 2, .last = 3}},
                    twice[] = {{.first = 0, .last = 1}, {.first = 0, .last = 1}},
                    across[] = {{.first = 0, .last = 1}, {.first = 1, .last = 2}};
  const struct {
    mmc_dtype dtype;
    const uint32_t *traits;
    const int64_t *stored;
    const mmc_inverse *inverses;
    int64_t inverse_count;
    const char *message;
  } cases[] = {
      {MMC_F64, unknown, NULL, NULL, 0, "traits[0]: expected a set of mmc_trait"},
      {MMC_F64, lower, NULL, NULL, 0, "traits[3]: expected a square matrix"},
      {MMC_F64, zero, NULL, NULL, 0, "traits[0]: a zero matrix has no inverse"},
      {MMC_F64, NULL, later, NULL, 0, "stored[1]: expected 1 or the first"},
      {MMC_F64, NULL, indirect, NULL, 0, "stored[2]: expected 2 or the first"},
      {MMC_F64, NULL, negative, NULL, 0, "stored[1]: expected 1 or the first"},
      {MMC_F64, NULL, shape, NULL, 0, "stored[3]: factor 0 is stored in another shape"},
      {MMC_F64, NULL, NULL, before, 1, "inverses[0]: expected two factors or more"},
      {MMC_F64, NULL, NULL, single, 1, "inverses[0]: expected two factors or more"},
      {MMC_F64, NULL, NULL, past, 1, "inverses[0]: expected two factors or more"},
      {MMC_F64, NULL, NULL, oblong, 1, "inverses[0]: expected a square product, got 4 x 5"},
      {MMC_F64, NULL, NULL, twice, 2, "inverses[1]: expected a group apart from"},
      {MMC_F64, NULL, NULL, across, 2, "inverses[1]: expected a group apart from"},
      {MMC_F64, NULL, NULL, NULL, 1, "inverses: expected inverse_count groups, got NULL"},
      {MMC_F64, NULL, NULL, across, -1, "inverse_count: expected 0 to 4 inverses, got -1"},
      {MMC_F64, NULL, NULL, across, 5, "inverse_count: expected 0 to 4 inverses, got 5"},
  };
  for (size_t t = 0; t < sizeof cases / sizeof cases[0]; t++) {
    mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
    options.traits = cases[t].traits;
    options.stored = cases[t].stored;
    options.inverses = cases[t].inverses;
    options.inverse_count = cases[t].inverse_count;
    mmc_chain *chain = NULL;
    mmci_error error = {0};
    assert_int_equal(mmci_chain_create_as(cases[t].dtype, 4, dims, NULL, &options, &chain, &error),
                     MMC_E_ARG);
    assert_null(chain);
    if (strstr(error.text, cases[t].message) != error.text)
      fail_msg("expected '%s', got '%s'", cases[t].message, error.text);
  }
  const char *const texts[][2] = {
      {"i32:4x4x4:lower,N",
       "traits: expected a dtype of floating-point numbers with them, got i32"},
      {"u8:4x4x4:(N,N).inv",
       "traits: expected a dtype of floating-point numbers with them, got u8"},
      {"i64%99999999999999999999:4x4", "chain, position 5: expected a modulus of 1 to 2^63 - 1"},
      {"i64%18446744073709551619:4x4", "chain, position 5: expected a modulus of 1 to 2^63 - 1"},
      {"i64%0:4x4", "chain, position 5: expected a modulus of 1 to 2^63 - 1"},
      {"8x9x8:(N,N).in", "chain, position 11: expected ').inv', which ends a group"}};
  for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
    mmc_chain *chain = NULL;
    mmci_error error = {0};
    assert_int_equal(mmci_chain_parse(texts[t][0], &chain, &error), MMC_E_ARG);
    if (strstr(error.text, texts[t][1]) != error.text)
      fail_msg("expected '%s', got '%s'", texts[t][1], error.text);
  }
}

static void structure_is_told(void **state) {
  (void)state;
  const int64_t dims[] = {4, 4, 4}, same[] = {0, 0}, stored[] = {0, 0};
  const uint32_t traits[] = {MMC_LOWER, MMC_LOWER};
  const mmc_inverse group = {.first = 0, .last = 1};
  mmc_chain *chain;
  mmci_error error;
  mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
  options.traits = traits;
  options.same = same;
  options.inverses = &group;
  options.inverse_count = 1;
  assert_int_equal(mmci_chain_create_as(MMC_C64, 2, dims, NULL, &options, &chain, &error), MMC_OK);
  int64_t count = -1;
  assert_int_equal(mmc_chain_traits(chain, 1), MMC_LOWER);
  assert_int_equal(mmc_chain_traits(chain, 2), 0);
  assert_int_equal(mmc_chain_traits(chain, -1), 0);
  assert_int_equal(mmc_chain_traits(NULL, 0), 0);
  assert_memory_equal(mmc_chain_inverses(chain, &count), &group, sizeof group);
  assert_int_equal(count, 1);
  assert_null(mmc_chain_inverses(NULL, &count));
  mmc_chain_destroy(chain);
  /* Bands are narrowed, and dropped where they tell nothing. */
  const uint32_t banded[] = {MMC_BANDED | MMC_SYMMETRIC, MMC_BANDED};
  const mmc_band bands[] = {{2, 1}, {0, 99}}, negative[] = {{1, 1}, {1, -1}};
  options = (mmc_chain_options)MMC_CHAIN_OPTIONS_INIT;
  options.traits = banded;
  assert_int_equal(mmci_chain_create_as(MMC_C64, 2, dims, NULL, &options, &chain, &error),
                   MMC_E_ARG);
  assert_non_null(strstr(error.text, "bands: expected n bands"));
  options.bands = negative;
  assert_int_equal(mmci_chain_create_as(MMC_C64, 2, dims, NULL, &options, &chain, &error),
                   MMC_E_ARG);
  assert_non_null(strstr(error.text, "bands[1]: expected widths from 0 of a banded factor"));
  options.bands = bands;
  assert_int_equal(mmci_chain_create_as(MMC_C64, 2, dims, NULL, &options, &chain, &error), MMC_OK);
  assert_int_equal(mmc_chain_traits(chain, 0), MMC_BANDED | MMC_SYMMETRIC);
  assert_int_equal(mmc_chain_band(chain, 0).below, 1);
  assert_int_equal(mmc_chain_band(chain, 0).above, 1);
  assert_int_equal(mmc_chain_traits(chain, 1), MMC_UPPER);
  assert_int_equal(mmc_chain_band(chain, 1).above, 0);
  assert_int_equal(mmc_chain_band(chain, 2).above, 0);
  assert_int_equal(mmc_chain_band(NULL, 0).above, 0);
  mmc_chain_destroy(chain);
  /* Of integers nothing is gained by what is stored twice. */
  options = (mmc_chain_options)MMC_CHAIN_OPTIONS_INIT;
  options.stored = stored;
  options.modulus = 5;
  for (int d = 0; d < 2; d++) {
    const mmc_dtype dtype = d == 0 ? MMC_I64 : MMC_I8;
    assert_int_equal(mmci_chain_create_as(dtype, 2, dims, NULL, &options, &chain, &error), MMC_OK);
    assert_int_equal(mmc_chain_traits(chain, 0), 0);
    mmc_chain_destroy(chain);
  }
}

/* Residues of every dtype, of numbers below zero too, in lines with gaps that are left alone. */
static void residues_are_not_negative(void **state) {
  (void)state;
  enum { LINES = 2, LENGTH = 3, LD = 4, MODULUS = 7 };
#define REDUCES(dtype, type)                                                     \
  do {                                                                           \
    type numbers[LINES * LD] = {(type)-1, 100, 6, 99, 7, (type)-100, 0, 99};     \
    const type given[LINES * LD] = {(type)-1, 100, 6, 99, 7, (type)-100, 0, 99}; \
    mmci_reduce(dtype, MODULUS, LINES, LENGTH, numbers, LD);                     \
    for (int i = 0; i < LINES * LD; i++) {                                       \
      type residue = (type)(given[i] % (type)MODULUS);                           \
      if (given[i] < (type)1 && given[i] != 0 && residue != 0)                   \
        residue = (type)(residue + MODULUS);                                     \
      assert_true(numbers[i] == (i % LD == LENGTH ? given[i] : residue));        \
    }                                                                            \
  } while (0)
  REDUCES(MMC_I8, int8_t);
  REDUCES(MMC_I16, int16_t);
  REDUCES(MMC_I32, int32_t);
  REDUCES(MMC_I64, int64_t);
  REDUCES(MMC_U8, uint8_t);
  REDUCES(MMC_U16, uint16_t);
  REDUCES(MMC_U32, uint32_t);
  REDUCES(MMC_U64, uint64_t);
#undef REDUCES
}

static void bad_arguments_are_named(void **state) {
  (void)state;
  const int64_t dims[] = {3, 4, -1};
  const mmc_op ops[] = {MMC_OP_N, (mmc_op)9};
  mmc_chain *chain;
  mmci_error error;
  assert_int_equal(mmci_chain_create(MMC_F64, 0, dims, NULL, &chain, &error), MMC_E_ARG);
  assert_string_equal(error.text, "n: expected 1 to 1073741823 factors, got 0");
  assert_int_equal(mmci_chain_create(MMC_F64, 2, dims, NULL, &chain, &error), MMC_E_ARG);
  assert_string_equal(error.text, "dims[2]: expected 0 to 2^62, got -1");
  assert_int_equal(mmci_chain_create(MMC_F64, 1, NULL, NULL, &chain, &error), MMC_E_ARG);
  assert_int_equal(mmci_chain_create((mmc_dtype)77, 1, dims, NULL, &chain, &error), MMC_E_ARG);
  assert_string_equal(
      error.text,
      "dtype: expected f32, f64, c64, c128, f16, bf16, i8, i16, i32, i64, u8, u16, u32, "
      "u64 or bool, got number 77");
  assert_int_equal(mmci_chain_create(MMC_F64, 1, dims, ops + 1, &chain, &error), MMC_E_ARG);
  assert_string_equal(error.text, "ops[0]: expected MMC_OP_N, _T or _H, got number 9");
}

static void batches_and_repeats_are_checked(void **state) {
  (void)state;
  const int64_t dims[] = {4, 4, 4, 5};
  const int64_t good[] = {0, 0, 2}, later[] = {1, 1, 2}, indirect[] = {0, 0, 1},
                shape[] = {0, 0, 0};
  const mmc_op ops[] = {MMC_OP_N, MMC_OP_T, MMC_OP_N};
  mmc_chain *chain, *copy;
  mmci_error error;
  assert_int_equal(mmci_chain_create_batch(MMC_F64, 3, dims, NULL, -1, NULL, &chain, &error),
                   MMC_E_ARG);
  assert_string_equal(error.text, "batch: expected 0 to 2^62, got -1");
  assert_int_equal(mmci_chain_create_batch(MMC_F64, 3, dims, NULL, 2, later, &chain, &error),
                   MMC_E_ARG);
  assert_string_equal(
      error.text,
      "same[0]: expected 0 or the first of the factors before that are this one, got 1");
  assert_int_equal(mmci_chain_create_batch(MMC_F64, 3, dims, NULL, 2, indirect, &chain, &error),
                   MMC_E_ARG);
  assert_string_equal(
      error.text,
      "same[2]: expected 2 or the first of the factors before that are this one, got 1");
  assert_int_equal(mmci_chain_create_batch(MMC_F64, 3, dims, NULL, 2, shape, &chain, &error),
                   MMC_E_ARG);
  assert_string_equal(error.text, "same[2]: factor 0 is of another shape or op");
  assert_int_equal(mmci_chain_create_batch(MMC_F64, 3, dims, ops, 2, good, &chain, &error),
                   MMC_E_ARG);
  assert_string_equal(error.text, "same[1]: factor 0 is of another shape or op");
  assert_int_equal(mmci_chain_create_batch(MMC_F64, 3, dims, NULL, 2, good, &chain, &error),
                   MMC_OK);
  assert_int_equal(mmci_chain_copy(chain, &copy, &error), MMC_OK);
  assert_int_equal(copy->batch, 2);
  assert_memory_equal(copy->dims, dims, sizeof dims);
  for (int i = 0; i < 3; i++) assert_int_equal(copy->same[i], good[i]);
  mmc_chain_destroy(copy);
  mmc_chain_destroy(chain);
}

/* Against the addresses of a plain loop over the axes. */
/* A stack that is the chain: what is asked of each factor is there, and of a batch too. */
static void a_stack_may_be_the_chain(void **state) {
  (void)state;
  enum { FACTORS = 3, BATCH = 2, SIDE = 2, STEP = SIDE * SIDE };
  double data[BATCH * FACTORS * STEP];
  const mmc_matrix stack = {.data = data,
                            .rows = SIDE,
                            .cols = SIDE,
                            .ld = SIDE,
                            .layout = MMC_COL_MAJOR,
                            .stride = FACTORS * STEP};
  mmc_matrix factors[FACTORS];
  assert_true(mmc_matrix_chain(&stack, MMC_F64, FACTORS, STEP, factors));
  for (int i = 0; i < FACTORS; i++) {
    assert_ptr_equal(factors[i].data, data + i * STEP);
    assert_true(factors[i].rows == SIDE && factors[i].cols == SIDE && factors[i].ld == SIDE);
    assert_true(factors[i].layout == MMC_COL_MAJOR && factors[i].stride == FACTORS * STEP);
    assert_true(factors[i].location == MMC_HOST && factors[i].addresses == NULL);
  }
  assert_true(mmc_matrix_chain(&stack, MMC_F64, FACTORS, -STEP, factors));
  assert_true((uintptr_t)factors[1].data == (uintptr_t)data - sizeof(double) * STEP);
  assert_true(mmc_matrix_chain(&stack, MMC_F64, FACTORS, 0, factors)); /* a power */
  assert_ptr_equal(factors[2].data, data);
  assert_true(mmc_matrix_chain(&(mmc_matrix){.cols = 3}, MMC_F32, FACTORS, 0, factors));
  assert_null(factors[2].data);
}

static void stacks_are_strides_or_tables(void **state) {
  (void)state;
  enum { ROOM = 4 * 4 * 4 };
  uint64_t random = seed + 1;
  int tables = 0;
  for (int round = 0; round < 20000; round++) {
    int64_t shape[3], strides[3], count = 1;
    int ndim = (int)random_below(&random, 4);
    for (int d = 0; d < ndim; d++) shape[d] = random_below(&random, 5);
    for (int d = ndim - 1, next = 3; d >= 0; d--) {
      strides[d] = random_below(&random, 3) == 0 ? 0 : random_below(&random, 8) == 0 ? -2 : next;
      if (strides[d] != 0) next = (int)(strides[d] * shape[d]);
      count *= shape[d];
    }
    double data;
    void *addresses[ROOM];
    mmc_matrix matrix = {.data = &data, .rows = 1, .cols = 1};
    bool strided = mmc_matrix_stack(&matrix, MMC_F64, ndim, shape, strides, NULL);
    if (!strided) assert_true(mmc_matrix_stack(&matrix, MMC_F64, ndim, shape, strides, addresses));
    assert_true(strided == (matrix.addresses == NULL));
    tables += !strided;
    for (int64_t i = 0; i < count; i++) {
      int64_t want = 0, left = i;
      for (int d = ndim - 1; d >= 0; d--) {
        want += left % shape[d] * strides[d];
        left /= shape[d];
      }
      if (strided)
        assert_int_equal(i * matrix.stride, want);
      else
        assert_ptr_equal(addresses[i], (char *)&data + want * 8);
    }
  }
  assert_true(tables > 1000 && tables < 19000);
}

/* Any text either parses to a chain that prints and parses to itself, or fails with a message. */
static void random_text_never_surprises(void **state) {
  (void)state;
  static const char letters[] = "0123456789xxxx:::@@^^==,bfc163264128NTHnth -";
  uint64_t random = seed;
  for (int round = 0; round < 200000; round++) {
    char text[24] = "";
    int64_t length = random_below(&random, 20);
    for (int64_t i = 0; i < length; i++)
      text[i] = letters[random_below(&random, sizeof letters - 1)];
    mmc_chain *chain, *again;
    mmci_error error = {0};
    if (mmci_chain_parse(text, &chain, &error) != MMC_OK) {
      assert_true(strlen(error.text) > 20);
      continue;
    }
    char printed[256] = "";
    assert_int_equal(mmc_chain_write(chain, append, printed), MMC_OK);
    assert_int_equal(mmci_chain_parse(printed, &again, &error), MMC_OK);
    assert_int_equal(chain->n, again->n);
    assert_int_equal(chain->batch, again->batch);
    assert_memory_equal(chain->dims, again->dims, ((size_t)chain->n + 1) * sizeof *chain->dims);
    assert_memory_equal(chain->ops, again->ops, (size_t)chain->n * sizeof *chain->ops);
    for (int64_t i = 0; i < chain->n; i++) {
      assert_int_equal(mmc_chain_same(chain, i), mmc_chain_same(again, i));
      assert_true(mmc_chain_shared(chain, i) == mmc_chain_shared(again, i));
    }
    mmc_chain_destroy(again);
    mmc_chain_destroy(chain);
  }
}

/* Two products lie alike when all sizes and leading dimensions are the same. */
static void products_are_compared(void **state) {
  (void)state;
  const mmci_gemm gemm = mmci_gemm_tight(MMC_F64, MMCI_NATIVE, 3, 4, 5, MMC_OP_N, MMC_OP_N);
  assert_true(mmci_gemm_lies_as(&gemm, &gemm));
  for (int field = 0; field < 6; field++) {
    mmci_gemm other = gemm;
    int64_t *const fields[] = {&other.m, &other.k, &other.n, &other.a.ld, &other.b.ld, &other.ldc};
    ++*fields[field];
    assert_false(mmci_gemm_lies_as(&gemm, &other));
  }
}

/* Sizes that no memory has are a quarter of the most, so that sums of them do not wrap. */
static void padded_sizes_do_not_wrap(void **state) {
  (void)state;
  const int64_t huge = (int64_t)1 << 62;
  const uint64_t most = UINT64_MAX / 4;
  assert_true(mmci_padded_bytes(8, MMC_F64, 3, 5) == 8 * 8 * sizeof(double));
  assert_true(mmci_padded_bytes(8, MMC_F64, huge, huge) == most);
  assert_true(mmci_padded_bytes(8, MMC_F64, huge, 1) == most);
  assert_true(mmci_padded_bytes(1, MMC_F32, huge / 4, 1) == most);
  assert_true(mmci_padding_bytes(8, MMC_F64, huge, huge, huge) == most);
  assert_true(mmci_padding_bytes(8, MMC_F64, 8, 8, 8) == 3 * 8 * 8 * sizeof(double));
  assert_int_equal(mmci_elements(3, 4), 12);
  assert_int_equal(mmci_elements(huge, huge), 0);
  mmci_gemm empty = mmci_gemm_tight(MMC_F64, MMCI_NATIVE, 3, 0, 5, MMC_OP_N, MMC_OP_N);
  assert_int_equal(mmci_gemm_padded(8, &empty).a.ld, 8);
}

/* The name of a group that somebody has written need not be one. */
static void names_of_groups_are_read(void **state) {
  (void)state;
  int64_t rows = 0, cols = 0;
  assert_true(mmci_group_name_result("call NNN 10x30x5:0*1 10x5x60:3*2 @1", &rows, &cols));
  assert_true(rows == 10 && cols == 60);
  static const char *const bad[] = {
      "",
      "call ",
      "call @1",
      "call NNN 10x30x5:0*1",
      "group NN 1x2x3:0*1 @1",
      "call @",
      "call NN 1x2 @1",
      "call NN x @1",
      "call NN 1x2x3 @1",
      "call NN 1x2x3;0*1 @1",
      "call NN @",
      "@",
      "call  @1",
      "call N @1",
  };
  for (size_t b = 0; b < sizeof bad / sizeof bad[0]; b++)
    if (mmci_group_name_result(bad[b], &rows, &cols)) fail_msg("'%s' was read", bad[b]);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Says whether an element of `to` is that of `from`, or its conjugate. */
static bool is_copied(mmc_dtype dtype, const char *from, const char *to, bool conj) {
  const size_t size = mmc_dtype_size(dtype);
  char expected[16];
  memcpy(expected, from, size);
  if (conj && dtype == MMC_C64) {
    float im;
    memcpy(&im, expected + sizeof im, sizeof im);
    im = -im;
    memcpy(expected + sizeof im, &im, sizeof im);
  } else if (conj && dtype == MMC_C128) {
    double im;
    memcpy(&im, expected + sizeof im, sizeof im);
    im = -im;
    memcpy(expected + sizeof im, &im, sizeof im);
  }
  return memcmp(expected, to, size) == 0;
}

/* Matrices of elements of every size, in any layout, with gaps, at addresses that are multiples of
 * an element or not: what is copied is where it should be, and what lies between is left alone. */
static void copies_lie_as_they_are_asked_to(void **state) {
  (void)state;
  static const mmc_dtype dtypes[] = {MMC_I8, MMC_F16, MMC_F32, MMC_F64, MMC_C64, MMC_C128};
  enum { SIDE = 70, GAP = 3, BYTES = (SIDE + GAP) * (SIDE + GAP) * 16 + 8 };
  static _Alignas(16) char from[BYTES], to[BYTES];
  uint64_t seed = 20263;
  for (int c = 0; c < 1500; c++) {
    const mmc_dtype dtype = dtypes[random_below(&seed, 6)];
    const size_t size = mmc_dtype_size(dtype);
    const int64_t most = random_below(&seed, 4) == 0 ? SIDE : 9;
    const int64_t rows = random_below(&seed, most + 1), cols = random_below(&seed, most + 1);
    const bool by_columns = random_below(&seed, 2) == 0, trans = random_below(&seed, 2) == 0;
    const bool conj = size >= 8 && dtype != MMC_F64 && random_below(&seed, 2) == 0;
    const mmci_form form = {
        .ld = (trans ? rows : cols) + random_below(&seed, GAP), .trans = trans, .conj = conj};
    const int64_t ld = (by_columns ? rows : cols) + random_below(&seed, GAP);
    const size_t begin = random_below(&seed, 3) == 0 ? (size_t)random_below(&seed, 8) : 0;
    for (size_t b = 0; b < BYTES; b += sizeof(uint64_t)) {
      const uint64_t bits = random_bits(&seed) & 0x3f3f3f3f3f3f3f3f; /* no NaN */
      memcpy(from + b, &bits, sizeof bits);
    }
    memset(to, 0x7e, BYTES);
    mmci_copy(dtype, rows, cols, from + begin, &form, to + begin, ld, by_columns);
    int64_t written = 0;
    for (int64_t r = 0; r < rows; r++)
      for (int64_t k = 0; k < cols; k++) {
        const int64_t source = trans ? k * form.ld + r : r * form.ld + k;
        char *target = to + begin + (size_t)(by_columns ? k * ld + r : r * ld + k) * size;
        if (!is_copied(dtype, from + begin + (size_t)source * size, target, conj))
          fail_msg("seed 20263, case %d: element %d, %d of %s", c, (int)r, (int)k,
                   mmc_dtype_name(dtype));
        memset(target, 0x7e, size);
        written++;
      }
    assert_int_equal(written, rows * cols);
    for (size_t b = 0; b < BYTES; b++)
      if (to[b] != 0x7e) fail_msg("seed 20263, case %d: byte %d beside it", c, (int)b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_are_compared),
      cmocka_unit_test(padded_sizes_do_not_wrap),
      cmocka_unit_test(names_of_groups_are_read),
      cmocka_unit_test(text_round_trips),
      cmocka_unit_test(shared_factors_are_known),
      cmocka_unit_test(dtypes_have_names_and_sizes),
      cmocka_unit_test(parts_are_read),
      cmocka_unit_test(bad_text_is_named),
      cmocka_unit_test(batches_and_repeats_are_checked),
      cmocka_unit_test(stacks_are_strides_or_tables),
      cmocka_unit_test(a_stack_may_be_the_chain),
      cmocka_unit_test(versions_of_a_matrix_are_told_apart),
      cmocka_unit_test(long_texts_of_structure_are_read),
      cmocka_unit_test(bad_structure_is_named),
      cmocka_unit_test(structure_is_told),
      cmocka_unit_test(residues_are_not_negative),
      cmocka_unit_test(bad_arguments_are_named),
      cmocka_unit_test(random_text_never_surprises),
      cmocka_unit_test(copies_lie_as_they_are_asked_to),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
