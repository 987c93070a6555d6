/* golden_wisdom.h: what was never measured: a store for the devices of golden_device.c, in the text
 * form of docs/wisdom.md. Its figures favour other orders than that of fewest multiplications. */
#ifndef MMC_TEST_GOLDEN_WISDOM_H
#define MMC_TEST_GOLDEN_WISDOM_H

#define GOLDEN_FINGERPRINT(dtype, precision)                                                      \
  "fingerprint \"cuda\" \"golden card\" \"golden driver\" \"\" \"%s\" \"" dtype "\" \"" precision \
  "\"\n"

/* Every %s is the version of mmchain. */
static const char golden_wisdom[] =
    "mmchain wisdom 1\n"
    /* f32: products, groups, batches and both models. */
    GOLDEN_FINGERPRINT("f32", "native")
    "product 256 3072 2048 N N time \"n:1024,1024\" 0.0001 0.01 0.00015 0.02 0.03 200 "
    "\"measured\" 1700000000\n"
    "product 256 3072 2048 N N energy \"m:128,128\" 0.00012 0.01 0.00015 0.015 0.03 125 "
    "\"measured\" 1700000000\n"
    "product 1000 1000 1000 N N time \"whole\" 0.00004 0.01 0.00004 0.008 0.008 200 "
    "\"measured\" 1700000000\n"
    "product 1000 1000 1000 N N energy \"pad8/whole\" 0.000045 0.01 0.00004 0.006 0.008 133 "
    "\"measured\" 1700000000\n"
    "product 30 35 15 N N time \"whole\" 0.00009 0.01 0.00009 - - - \"measured\" 1700000000\n"
    "product 35 15 5 N N time \"whole\" 0.000009 0.01 0.000009 - - - \"measured\" 1700000000\n"
    "product 15 5 10 N N time \"whole\" 0.000002 0.01 0.000002 - - - \"measured\" 1700000000\n"
    "product 936 1008 552 N N time \"m:468,468\" 0.000011 0.02 0.000014 - - - \"measured\" "
    "1700000000\n"
    "product 552 368 1016 N N time \"lanes2/n:508,508\" 0.000008 0.02 0.000009 - - - "
    "\"measured\" 1700000000\n"
    "fact \"flops_per_s\" 4e13 0 1700000000\n"
    "fact \"bytes_per_s\" 2e12 0 1700000000\n"
    "fact \"launch_s\" 4e-06 0 1700000000\n"
    "fact \"half_mn\" 48 0 1700000000\n"
    "fact \"half_k\" 32 0 1700000000\n"
    "fact \"overlap\" 1 0 1700000000\n"
    "fact \"model_error\" 0.2 0 1700000000\n"
    "fact \"static_w\" 110 0 1700000000\n"
    "fact \"joules_per_flop\" 6e-12 0 1700000000\n"
    "fact \"joules_per_byte\" 3e-11 0 1700000000\n"
    "fact \"energy_model_error\" 0.15 0 1700000000\n"
    "fact \"call NNN 10x30x5:0*1 10x5x60:3*2 @1\" 5e-06 0.02 1700000000\n"
    "fact \"call NNN 30x5x60:1*2 10x30x60:0*3 @1\" 3e-06 0.02 1700000000\n"
    "fact \"call NNNN 16x16x16:0*1 16x16x16:4*2 16x16x16:5*3 @10000\" 2e-05 0.02 1700000000\n"
    "fact \"batch NN 16x16x16 @10000\" 1.5e-05 0.02 1700000000\n"
    "fact \"batch NN 500x20x300 @100\" 9e-05 0.02 1700000000\n"
    /* Faster and of fewer joules, less exact. */
    GOLDEN_FINGERPRINT("f32", "fast")
    "product 1000 1000 1000 N N time \"whole\" 0.00001 0.01 0.00001 0.003 0.003 300 "
    "\"measured\" 1700000000\n"
    "fact \"flops_per_s\" 2e14 0 1700000000\n"
    "fact \"bytes_per_s\" 2e12 0 1700000000\n"
    "fact \"launch_s\" 4e-06 0 1700000000\n"
    "fact \"half_mn\" 96 0 1700000000\n"
    "fact \"half_k\" 64 0 1700000000\n"
    "fact \"overlap\" 1 0 1700000000\n"
    "fact \"model_error\" 0.2 0 1700000000\n"
    /* f64: an efficiency array. */
    GOLDEN_FINGERPRINT("f64", "native")
    "array N N time 3 3 2 1700000000\n"
    " m 64 128 2048\n"
    " k 64 128 2048\n"
    " n 64 2048\n"
    " E 1e12 4e12\n"
    " E 2e12 6e12\n"
    " E 3e12 8e12\n"
    " E 2e12 7e12\n"
    " E 3e12 9e12\n"
    " E 4e12 1e13\n"
    " E 4e12 9e12\n"
    " E 5e12 1.5e13\n"
    " E 6e12 2e13\n"
    "fact \"array NN margin\" 0.02 0 1700000000\n"
    "fact \"array NN between\" 0.05 0.03 1700000000\n"
    "end 36\n";

#endif
