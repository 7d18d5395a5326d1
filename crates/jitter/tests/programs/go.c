/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Has the note by which programs in Go are known (type 4: the build ID). */
#include <unistd.h>

__asm__(".pushsection .note.go.buildid, \"a\", %note\n"
        ".p2align 2\n"
        ".long 4, 4, 4\n"
        ".ascii \"Go\\0\\0test\"\n"
        ".popsection\n");

int main(void)
{
    return usleep(50000);
}
