/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Many processes, random point-to-point messages, in the spirit of NPB DT:
 * pairs drawn by a generator that all processes share exchange a block, and
 * compute a little in between. Every message carries what its receiver
 * expects, and all are counted.
 *
 * exchange ROUNDS BYTES */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long rounds = argc > 1 ? atol(argv[1]) : 1000;
    int bytes = argc > 2 ? atoi(argv[2]) : 4096;
    unsigned char *block = malloc(bytes);
    if (!block || size < 2) {
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    unsigned long long x = 271828183;
    long counts[2] = {0, 0}; /* received, wrong */
    for (long i = 0; i < rounds; i++) {
        x = x * 6364136223846793005ULL + 1442695040888963407ULL;
        int a = (int)((x >> 33) % size);
        int b = (int)((a + 1 + (x >> 20) % (size - 1)) % size);
        if (rank != a && rank != b)
            continue;
        int other = rank == a ? b : a;
        memset(block, (rank + i) & 255, bytes);
        MPI_Sendrecv_replace(block, bytes, MPI_BYTE, other, 0, other, 0, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
        counts[0]++;
        int wrong = 0;
        for (int k = 0; k < bytes; k++)
            wrong |= block[k] ^ (unsigned char)(other + i);
        counts[1] += wrong != 0;
        volatile unsigned work = (unsigned)x;
        for (int k = 0; k < 2000; k++)
            work = work * 1664525u + 1013904223u;
    }
    long all[2];
    MPI_Reduce(counts, all, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("received %ld wrong %ld\n", all[0], all[1]);
    free(block);
    MPI_Finalize();
    return 0;
}
