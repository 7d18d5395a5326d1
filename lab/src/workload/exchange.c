/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The shuffle graph of NPB DT (NAS-98-009 and DT's README: sources, comparators, sinks):
 * S sources, log2(S) - 1 layers of comparators and a layer of sinks, each of S processes.
 * A process sends its block to two of the next layer, whose numbers differ in the bit of
 * that layer, so that each sink has the sum of all sources, and checks it. S = 16 (class A)
 * has 80 processes.
 *
 * exchange ROUNDS BYTES */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORK = 2000 };

int main(int argc, char **argv)
{
    int rank, size, sources = 1, stages = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long rounds = argc > 1 ? atol(argv[1]) : 1000;
    int words = (argc > 2 ? atoi(argv[2]) : 4096) / (int)sizeof(unsigned);
    while (sources * (stages + 1) < size) {
        sources *= 2;
        stages++;
    }
    unsigned *block = malloc(2 * words * sizeof(unsigned));
    if (!block || stages == 0 || sources * (stages + 1) != size) {
        fprintf(stderr, "exchange: 4, 12, 32, 80 or 192 processes\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    unsigned *other = block + words;
    int layer = rank / sources, at = rank % sources;
    long counts[2] = {0, 0}; /* received, wrong */
    for (long i = 0; i < rounds; i++) {
        if (layer == 0) {
            for (int k = 0; k < words; k++)
                block[k] = (unsigned)((at + 1) * (i + k + 1));
        } else {
            int bit = 1 << (layer - 1), first = (layer - 1) * sources + (at & ~bit);
            MPI_Recv(block, words, MPI_UNSIGNED, first, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(other, words, MPI_UNSIGNED, first + bit, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
            for (int k = 0; k < words; k++)
                block[k] += other[k];
            counts[0] += 2;
            volatile unsigned work = (unsigned)i;
            for (int k = 0; k < WORK; k++)
                work = work * 1664525u + 1013904223u;
        }
        if (layer < stages) {
            int bit = 1 << layer, first = (layer + 1) * sources + (at & ~bit);
            /* Synchronous, or sources would be ahead by as much as memory holds. */
            MPI_Ssend(block, words, MPI_UNSIGNED, first, 0, MPI_COMM_WORLD);
            MPI_Ssend(block, words, MPI_UNSIGNED, first + bit, 0, MPI_COMM_WORLD);
        } else {
            unsigned all = (unsigned)(sources * (sources + 1) / 2);
            int wrong = 0;
            for (int k = 0; k < words; k++)
                wrong |= block[k] != all * (unsigned)(i + k + 1);
            counts[1] += wrong;
        }
    }
    long all[2];
    MPI_Reduce(counts, all, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("received %ld wrong %ld\n", all[0], all[1]);
    free(block);
    MPI_Finalize();
    return 0;
}
