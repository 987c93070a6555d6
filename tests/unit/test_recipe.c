/* test_recipe.c: recipes as text, and taken apart. That the pieces multiply right is in
 * conformance/test_recipes.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../how_many.h"
#include "../recipes.h"

static const uint64_t seed = 4711;

/* The third is one that the dtype does not have. */
static const char *variant_name(mmc_dtype dtype, int variant) {
  static const char *const names[] = {"1 thread", "big_tile 16x32 k8", "", "libx.2", "2"};
  (void)dtype;
  return variant <= 5 ? names[variant - 1] : NULL;
}

static const mmci_variants variants = {.name = variant_name, .dtype = MMC_F32};

static void texts_that_are_recipes(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int pieces, queues, pad;
  } good[] = {
      {"whole", 1, 1, 0},
      {"v1", 1, 1, 0},
      {"v9999", 1, 1, 0},
      {"n:96,32", 2, 1, 0},
      {"m:1,3", 2, 1, 0},
      {"k:4095,1", 2, 1, 0},
      {"n:96v1,32(m:2,2v3)", 3, 1, 0},
      {"queues2/n:64,64", 2, 2, 0},
      {"pad8/whole", 1, 1, 8},
      {"pad8/queues3/n:64(n:32,32),64", 3, 3, 8},
      {"k:2048(n:64,64),2048(n:64,64)", 4, 1, 0},
  };
  for (size_t t = 0; t < sizeof good / sizeof good[0]; t++) {
    mmci_error error = {0};
    mmci_recipe recipe;
    char text[MMCI_RECIPE_TEXT_SIZE];
    if (mmci_recipe_parse(good[t].text, 4, 4096, 128, NULL, &recipe, &error) != MMC_OK)
      fail_msg("%s: %s", good[t].text, error.text);
    assert_int_equal(mmci_recipe_count(&recipe), good[t].pieces);
    assert_int_equal(recipe.queues, good[t].queues);
    assert_int_equal(recipe.pad, good[t].pad);
    assert_true(mmci_recipe_format(&recipe, NULL, text));
    assert_string_equal(text, good[t].text);
    assert_int_equal(mmci_recipe_is_plain(&recipe), t == 0);
  }
}

/* Recipes as they are written with names, with numbers, and as earlier versions wrote them. */
static void texts_with_names(void **state) {
  (void)state;
  static const struct {
    const char *named, *numbered, *old;
  } texts[] = {
      {"whole", "whole", "whole"},
      {"whole@1-thread", "v1", "v1"},
      {"whole@big_tile-16x32-k8", "v2", "v2"},
      {"v3", "v3", "v3"},
      {"whole@2", "v5", "v5"},
      {"v6", "v6", "v6"},
      {"pad8/whole@libx.2", "pad8/v4", "pad8/v4"},
      {"n:96@1-thread,32(m:2,2@big_tile-16x32-k8)", "n:96v1,32(m:2,2v2)", "n:96v1,32(m:2,2v2)"},
      {"queues2/n:64@2,64", "queues2/n:64v5,64", "lanes2/n:64v5,64"},
      {"pad8/queues3/n:64(n:32v3,32),64@libx.2", "pad8/queues3/n:64(n:32v3,32),64v4",
       "pad8/lanes3/n:64(n:32v3,32),64v4"},
  };
  for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
    const char *const spellings[] = {texts[t].named, texts[t].numbered, texts[t].old};
    mmci_recipe recipes[3];
    char text[MMCI_RECIPE_TEXT_SIZE];
    for (int i = 0; i < 3; i++) {
      mmci_error error = {0};
      if (mmci_recipe_parse(spellings[i], 4, 4096, 128, &variants, &recipes[i], &error) != MMC_OK)
        fail_msg("%s: %s", spellings[i], error.text);
      assert_true(mmci_recipe_equal(&recipes[i], &recipes[0]));
    }
    assert_true(mmci_recipe_format(&recipes[0], &variants, text));
    assert_string_equal(text, texts[t].named);
    assert_true(mmci_recipe_format(&recipes[0], NULL, text));
    assert_string_equal(text, texts[t].numbered);
    assert_true(mmci_recipe_format_old(&recipes[0], text));
    assert_string_equal(text, texts[t].old);
  }
}

/* Where names make a text too long, all variants are written by their numbers. */
static void long_names(void **state) {
  (void)state;
  char text[MMCI_RECIPE_TEXT_SIZE];
  bool named = true;
  mmci_recipe one = mmci_recipe_whole(2), recipe = one, back;
  int64_t n = 100;
  for (int count = 2; count <= MMCI_RECIPE_PIECES; count++, n++) {
    assert_true(mmci_recipe_split(MMCI_AXIS_N, (int64_t[2]){n, 1}, &recipe, &one, &recipe));
    assert_true(mmci_recipe_format(&recipe, &variants, text));
    const bool has_names = strchr(text, '@') != NULL;
    assert_true(has_names != (strchr(text, 'v') != NULL));
    assert_true(named || !has_names);
    named = has_names;
    assert_int_equal(mmci_recipe_parse(text, 1, 1, n + 1, &variants, &back, NULL), MMC_OK);
    assert_true(mmci_recipe_equal(&back, &recipe));
  }
  assert_false(named);
}

/* An old text of the greatest length has no room for the longer word, and is turned down. */
static void longest_old_texts(void **state) {
  (void)state;
  int longest = 0;
  for (int pieces = 3; pieces <= MMCI_RECIPE_PIECES; pieces++)
    for (int64_t size = 1000; size < INT64_C(1000000000000000000); size *= 10) {
      mmci_recipe recipe = mmci_recipe_whole(0), one = recipe, back;
      int64_t n = size;
      char text[MMCI_RECIPE_TEXT_SIZE], now[MMCI_RECIPE_TEXT_SIZE];
      mmci_error error = {0};
      bool made = true;
      for (int p = 1; made && p < pieces; p++, n++)
        made = mmci_recipe_split(MMCI_AXIS_N, (int64_t[2]){n, 1}, &recipe, &one, &recipe);
      recipe.queues = 2;
      for (recipe.pad = 8; made && recipe.pad < 9999; recipe.pad *= 10) {
        if (!mmci_recipe_format_old(&recipe, text)) continue;
        const bool fits = mmci_recipe_format(&recipe, NULL, now);
        const mmc_status status = mmci_recipe_parse(text, 1, 1, n, NULL, &back, &error);
        assert_int_equal(status, fits ? MMC_OK : MMC_E_FORMAT);
        if (fits) continue;
        assert_int_equal(strlen(text), 255);
        assert_string_equal(error.text, "recipe: expected at most 255 characters, got more");
        longest++;
      }
    }
  assert_true(longest > 0);
}

static void texts_that_are_not(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } bad[] = {
      {"", "expected \"m:\", \"k:\" or \"n:\" at character 1, got \"\""},
      {"Whole", "expected \"m:\""},
      {"whole ", "expected the end at character 6, got \" \""},
      {"wholev1", "expected the end at character 6"},
      {"v0", "expected a number from 1 to 9999 at character 2, got \"0\""},
      {"v01", "expected a number from 1 to 9999"},
      {"v10000", "expected a number from 1 to 9999"},
      {"v-1", "expected a number from 1 to 9999"},
      {"@1-thread", "expected \"m:\""},
      {"whole@", "expected the name of a kernel of the device at character 7, got \"\""},
      {"whole@1", "expected the name of a kernel of the device at character 7, got \"1\""},
      {"whole@1 thread", "expected the name of a kernel of the device at character 7"},
      {"whole@1-threads", "expected the name of a kernel of the device"},
      {"n:96@big_tile,32", "expected the name of a kernel of the device at character 6"},
      {"n:96@2v1,32", "expected the name of a kernel of the device at character 6"},
      {"n:96@2@2,32", "expected \",\" at character 7"},
      {"n:0,128", "expected a number from 1 to 127 at character 3"},
      {"n:128,0", "expected a number from 1 to 127"},
      {"n:-1,129", "expected a number from 1 to 127"},
      {"n:064,64", "expected a number from 1 to 127"},
      {"n:64,63", "expected a number from 64 to 64 at character 6, got \"63\""},
      {"n:64,65", "expected a number from 64 to 64"},
      {"n:64", "expected \",\" at character 5, got \"\""},
      {"n:64,", "expected a number from 64 to 64"},
      {"n:64,64,0", "expected the end"},
      {"n:18446744073709551680,64", "expected a number from 1 to 127"},
      {"n:64(n:32,32,64", "expected \")\""},
      {"n:64(n:32,32)v1,64", "expected \",\""},
      {"n:64(),64", "expected \"m:\""},
      {"n:64(whole),64", "expected \"m:\""},
      {"n:64(m:2,2),64(m:2,3)", "expected a number from 2 to 2"},
      {"p:1,3", "expected \"m:\""},
      {"n64,64", "expected \"m:\""},
      {"pad8", "expected \"/\""},
      {"pad1/whole", "expected a number from 2 to 9999"},
      {"queues2/pad8/n:64,64", "expected \"m:\""},
      {"queues1/n:64,64", "expected a number from 2 to 9999"},
      {"queues3/n:64,64", "expected at most 2 queues, got 3"},
      {"lanes3/n:64,64", "expected at most 2 queues, got 3"},
      {"queues2/lanes2/n:64,64", "expected \"m:\""},
      {"queues2/whole", "expected at most 1 queues, got 2"},
      {"m:1(m:1,1),3", "expected a number from 1 to 0"},
      {"n:1,127(n:1,126(n:1,125(n:1,124(n:1,123(n:1,122(n:1,121(n:1,120(n:1,119(n:1,118(n:1,117("
       "n:1,116(n:1,115(n:1,114(n:1,113(n:1,112))))))))))))))))",
       "expected at most 16 pieces, got more"},
  };
  for (size_t t = 0; t < sizeof bad / sizeof bad[0]; t++) {
    mmci_error error = {0};
    mmci_recipe recipe = {.queues = 77};
    assert_int_equal(mmci_recipe_parse(bad[t].text, 4, 4096, 128, &variants, &recipe, &error),
                     MMC_E_FORMAT);
    if (strstr(error.text, bad[t].message) == NULL)
      fail_msg("\"%s\": \"%s\" does not say \"%s\"", bad[t].text, error.text, bad[t].message);
    assert_int_equal(recipe.queues, 77);
  }
  mmci_recipe recipe;
  char *endless = malloc(1 << 20);
  memset(endless, '(', 1 << 20);
  memcpy(endless, "n:64", 4);
  endless[(1 << 20) - 1] = '\0';
  assert_int_equal(mmci_recipe_parse(endless, 4, 4096, 128, NULL, &recipe, NULL), MMC_E_FORMAT);
  endless[255] = '\0';
  assert_int_equal(mmci_recipe_parse(endless, 4, 4096, 128, NULL, &recipe, NULL), MMC_E_FORMAT);
  free(endless);
  int64_t top = INT64_C(1) << 62;
  char text[MMCI_RECIPE_TEXT_SIZE];
  assert_int_equal(mmci_recipe_parse("m:1,4611686018427387903", top, 1, 1, NULL, &recipe, NULL),
                   MMC_OK);
  assert_true(mmci_recipe_format(&recipe, NULL, text));
  assert_string_equal(text, "m:1,4611686018427387903");
  assert_int_equal(mmci_recipe_parse("m:1,4611686018427387904", top, 1, 1, NULL, &recipe, NULL),
                   MMC_E_FORMAT);
  assert_int_equal(mmci_recipe_parse("m:1,0", 0, 1, 1, NULL, &recipe, NULL), MMC_E_FORMAT);
}

static mmci_gemm random_gemm(uint64_t *random, int64_t most) {
  mmci_gemm gemm = {.m = 1 + random_below(random, most),
                    .k = 1 + random_below(random, most),
                    .n = 1 + random_below(random, most),
                    .accumulate = random_below(random, 2) != 0};
  gemm.a = (mmci_form){.ld = 1 + most, .trans = random_below(random, 2) != 0};
  gemm.b = (mmci_form){.ld = 2 + most, .trans = random_below(random, 2) != 0};
  gemm.ldc = 3 + most;
  return gemm;
}

static void round_trip(void **state) {
  (void)state;
  uint64_t random = seed;
  for (int round = 0; round < 20000; round++) {
    mmci_gemm gemm = random_gemm(&random, round % 5 == 0 ? INT64_C(1) << 40 : 200);
    mmci_recipe recipe = random_recipe(&random, &gemm, 6), back;
    const mmci_variants *names = round % 2 == 0 ? &variants : NULL;
    char text[MMCI_RECIPE_TEXT_SIZE];
    mmci_error error = {0};
    assert_true(mmci_recipe_format(&recipe, names, text));
    if (mmci_recipe_parse(text, gemm.m, gemm.k, gemm.n, names, &back, &error) != MMC_OK ||
        !mmci_recipe_equal(&recipe, &back))
      fail_msg("\"%s\" (%s), round %d, seed %llu", text, error.text, round,
               (unsigned long long)seed);
  }
}

/* What is accepted is spelled as it is written, unless it is spelled as by earlier versions. */
static void any_text(void **state) {
  (void)state;
  static const char letters[] = "mkn:,()/v@-0123456789padlnesw ";
  uint64_t random = seed + 1;
  int accepted = 0, old = 0;
  for (int round = 0; round < how_many(100000, 300000); round++) {
    mmci_gemm gemm = random_gemm(&random, 12);
    char text[MMCI_RECIPE_TEXT_SIZE] = "", back[MMCI_RECIPE_TEXT_SIZE];
    if (round % 4 == 0) {
      int64_t length = random_below(&random, 24);
      for (int64_t i = 0; i < length; i++)
        text[i] = letters[random_below(&random, (int64_t)sizeof letters - 1)];
    } else {
      mmci_recipe recipe = random_recipe(&random, &gemm, 2);
      mmci_recipe_format(&recipe, round % 8 == 2 ? &variants : NULL, text);
      for (int64_t i = random_below(&random, 3); i > 0; i--)
        text[random_below(&random, (int64_t)strlen(text))] =
            random_below(&random, 30) == 0
                ? (char)(1 + random_below(&random, 255))
                : letters[random_below(&random, (int64_t)sizeof letters - 1)];
    }
    mmci_recipe recipe;
    const mmci_variants *names = round % 2 == 0 ? &variants : NULL;
    if (mmci_recipe_parse(text, gemm.m, gemm.k, gemm.n, names, &recipe, NULL) != MMC_OK) continue;
    accepted++;
    assert_true(mmci_recipe_format(&recipe, names, back));
    if (strstr(text, "lanes") != NULL || (names != NULL && strchr(text, 'v') != NULL)) {
      mmci_recipe again;
      assert_int_equal(mmci_recipe_parse(back, gemm.m, gemm.k, gemm.n, names, &again, NULL),
                       MMC_OK);
      assert_true(mmci_recipe_equal(&recipe, &again));
      old++;
    } else if (strcmp(text, back) != 0)
      fail_msg("\"%s\" was read as \"%s\", round %d, seed %llu", text, back, round,
               (unsigned long long)(seed + 1));
  }
  assert_true(accepted > how_many(10000, 30000) && old > how_many(1000, 3000));
}

/* Every multiplication is in one piece; the first to reach an element of C writes it, later ones
 * add, and all of them are in one queue. */
static void pieces_cover(void **state) {
  (void)state;
  uint64_t random = seed + 2;
  enum { MOST = 7, BEYOND = MOST + 9 }; /* with what is padded */
  for (int round = 0; round < 20000; round++) {
    mmci_gemm gemm = random_gemm(&random, MOST);
    mmci_recipe recipe = random_recipe(&random, &gemm, 3);
    mmci_gemm padded = mmci_recipe_padded(&recipe, &gemm);
    mmci_recipe_piece pieces[MMCI_RECIPE_PIECES];
    int count = mmci_recipe_pieces(&recipe, &gemm, pieces);
    assert_int_equal(count, mmci_recipe_count(&recipe));
    if (recipe.pad != 0) {
      assert_true(padded.a.ld % recipe.pad == 0 && padded.b.ld % recipe.pad == 0);
      assert_true(padded.ldc % recipe.pad == 0 && padded.n % recipe.pad == 0);
      assert_int_equal((padded.a.trans ? padded.m : padded.k) % recipe.pad, 0);
      assert_int_equal((padded.b.trans ? padded.k : padded.n) % recipe.pad, 0);
      assert_in_range(padded.m, gemm.m, gemm.m + recipe.pad - 1);
      assert_in_range(padded.k, gemm.k, gemm.k + recipe.pad - 1);
    }
    int covered[BEYOND][BEYOND][BEYOND] = {0}, queue[BEYOND][BEYOND];
    memset(queue, -1, sizeof queue);
    for (int p = 0; p < count; p++) {
      const mmci_recipe_piece *piece = &pieces[p];
      const mmci_gemm *g = &piece->gemm;
      assert_in_range(piece->queue, 0, recipe.queues - 1);
      assert_true(g->a.ld == padded.a.ld && g->b.ld == padded.b.ld && g->ldc == padded.ldc);
      /* Where in the product the offsets are. */
      int64_t lines[2] = {piece->a / padded.a.ld, piece->a % padded.a.ld};
      int64_t row = lines[padded.a.trans], inner = lines[!padded.a.trans];
      int64_t lines_b[2] = {piece->b / padded.b.ld, piece->b % padded.b.ld};
      int64_t inner_b = lines_b[padded.b.trans], column = lines_b[!padded.b.trans];
      assert_int_equal(inner, inner_b);
      assert_int_equal(piece->c, row * padded.ldc + column);
      assert_true(row + g->m <= padded.m && inner + g->k <= padded.k && column + g->n <= padded.n);
      for (int64_t i = row; i < row + g->m; i++)
        for (int64_t j = column; j < column + g->n; j++) {
          /* What is beyond the product is nobody's. */
          if (i < gemm.m && j < gemm.n)
            assert_int_equal(g->accumulate, gemm.accumulate || queue[i][j] >= 0);
          assert_true(queue[i][j] < 0 || queue[i][j] == piece->queue);
          queue[i][j] = piece->queue;
          for (int64_t l = inner; l < inner + g->k; l++) covered[i][l][j]++;
        }
    }
    for (int64_t i = 0; i < gemm.m; i++)
      for (int64_t l = 0; l < gemm.k; l++)
        for (int64_t j = 0; j < gemm.n; j++)
          if (covered[i][l][j] != 1)
            fail_msg("covered %d times, round %d, seed %llu", covered[i][l][j], round,
                     (unsigned long long)(seed + 2));
  }
}

/* Too many pieces, or too long a text, and nothing is made. */
static void splits_are_bounded(void **state) {
  (void)state;
  mmci_recipe recipe = mmci_recipe_whole(0), one = recipe;
  int64_t size = 100;
  int made = 0;
  while (mmci_recipe_split(MMCI_AXIS_N, (int64_t[2]){size, 1}, &recipe, &one, &recipe)) {
    size++;
    made++;
  }
  assert_int_equal(made, MMCI_RECIPE_PIECES - 1);
  assert_int_equal(mmci_recipe_count(&recipe), MMCI_RECIPE_PIECES);
  recipe = mmci_recipe_whole(0);
  for (made = 0, size = INT64_C(1) << 60;
       mmci_recipe_split(MMCI_AXIS_N, (int64_t[2]){size, size}, &recipe, &one, &recipe); made++)
    size += size > 0;
  assert_in_range(made, 4, 8);
  char text[MMCI_RECIPE_TEXT_SIZE];
  assert_true(mmci_recipe_format(&recipe, NULL, text));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts_that_are_recipes),
      cmocka_unit_test(texts_with_names),
      cmocka_unit_test(long_names),
      cmocka_unit_test(longest_old_texts),
      cmocka_unit_test(texts_that_are_not),
      cmocka_unit_test(round_trip),
      cmocka_unit_test(any_text),
      cmocka_unit_test(pieces_cover),
      cmocka_unit_test(splits_are_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
