/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Threads of OpenMP that compute a little and meet at a barrier, again and again. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    long steps = argc > 1 ? atol(argv[1]) : 1;
    long met = 0;

#pragma omp parallel
    {
        double x = 0.5;
        for (long step = 0; step < steps; step++) {
            for (int i = 0; i < 50000; i++)
                x = 3.7 * x * (1.0 - x);
#pragma omp barrier
#pragma omp master
            met++;
        }
        if (x < 0.0 || x > 1.0)
            exit(1);
    }
    printf("met %ld\n", met);
    return 0;
}
