/* Bandwidth of four patterns over arrays of N floats, the best of R rounds: ./stream N R

   Patterns and byte counts are those of lecture_lib/measuring/ceilings.py, and copy and triad are as in McCalpin's
   STREAM (https://www.cs.virginia.edu/stream/): each array read or written counts once, what a cache fetches to
   overwrite it does not. Prints "name bytes_per_second", a line each.

   cc -O3 -march=native -fopenmp stream.c -o stream */

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static float *a, *b, *c;

static double run(int pattern, long n) {
    double start = omp_get_wtime();
    float sum = 0;
    switch (pattern) {
    case 0:
#pragma omp parallel for simd
        for (long i = 0; i < n; i++) a[i] = b[i];
        break;
    case 1:
#pragma omp parallel for simd
        for (long i = 0; i < n; i++) a[i] = b[i] + 3.0f * c[i];
        break;
    case 2:
#pragma omp parallel for simd reduction(+ : sum)
        for (long i = 0; i < n; i++) sum += b[i] * c[i];
        break;
    case 3:
#pragma omp parallel for simd
        for (long i = 0; i < n; i++) a[i] += 1e-30f * b[i];
        break;
    }
    double seconds = omp_get_wtime() - start;
    static volatile float kept; /* so that no loop is dropped as useless */
    kept = sum + a[n / 2];
    (void)kept;
    return seconds;
}

int main(int argc, char **argv) {
    if (argc != 3) return fprintf(stderr, "usage: %s ELEMENTS ROUNDS\n", argv[0]), 2;
    long n = atol(argv[1]), rounds = atol(argv[2]);
    if (n < 1 || rounds < 1) return fprintf(stderr, "expected ELEMENTS and ROUNDS above 0\n"), 2;
    a = malloc(n * sizeof *a), b = malloc(n * sizeof *b), c = malloc(n * sizeof *c);
    if (!a || !b || !c) return fprintf(stderr, "not enough memory for 3 x %ld floats\n", n), 3;
#pragma omp parallel for /* each page is first touched by the thread that will use it */
    for (long i = 0; i < n; i++) a[i] = b[i] = c[i] = 1.0f;

    const char *names[] = {"copy", "triad", "read", "update"};
    const int arrays[] = {2, 3, 2, 3};
    double best[4] = {1e30, 1e30, 1e30, 1e30};
    for (long round = 0; round <= rounds; round++)
        for (int pattern = 0; pattern < 4; pattern++) {
            double seconds = run(pattern, n);
            if (round > 0 && seconds < best[pattern]) best[pattern] = seconds;
        }
    for (int pattern = 0; pattern < 4; pattern++)
        printf("%s %.6e\n", names[pattern], arrays[pattern] * (double)n * sizeof(float) / best[pattern]);
    return 0;
}
