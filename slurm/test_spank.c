/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Tests of the plugin without Slurm, whose part this plays: test_spank PROGRAM, which prints the last
   CPU of its list to standard error and fails. scripts/test-slurm builds and runs it. */
#include "spank_sandbag.c"

static char said[4096];

spank_context_t spank_context(void)
{
    return S_CTX_REMOTE;
}

int spank_remote(spank_t spank)
{
    (void)spank;
    return 1;
}

spank_err_t spank_option_register(spank_t spank, struct spank_option *option)
{
    (void)spank, (void)option;
    return ESPANK_SUCCESS;
}

spank_err_t spank_getenv(spank_t spank, const char *name, char *value, int size)
{
    (void)spank, (void)name, (void)value, (void)size;
    return ESPANK_ENV_NOEXIST;
}

/* One task of a step that has every CPU there can be. */
spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...)
{
    spank_err_t found = ESPANK_SUCCESS;
    va_list to;
    (void)spank;
    va_start(to, item);
    switch (item) {
    case S_JOB_UID: *va_arg(to, uid_t *) = 1000; break;
    case S_JOB_ID: *va_arg(to, uint32_t *) = 1; break;
    case S_JOB_STEPID: *va_arg(to, uint32_t *) = 0; break;
    case S_JOB_LOCAL_TASK_COUNT: *va_arg(to, uint32_t *) = 1; break;
    case S_JOB_NCPUS: *va_arg(to, uint16_t *) = MAX_CPUS; break;
    default: found = ESPANK_ERROR;
    }
    va_end(to);
    return found;
}

void slurm_error(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(said, sizeof said, format, values);
    va_end(values);
}

void slurm_spank_log(const char *format, ...)
{
    (void)format;
}

/* What is said when the only task of a step was forked. */
static int says(const char *text)
{
    forked = 0;
    slurm_spank_task_post_fork(NULL, 0, NULL);
    if (!strstr(said, text))
        fprintf(stderr, "no '%s' in: %s\n", text, said);
    return strstr(said, text) != NULL;
}

int main(int count, char **arguments)
{
    int status, failed = 0;
    char last[32];
    if (count != 2)
        return 2;
    site.sandbag = arguments[1];
    asked[LOAD] = "20";
    for (int cpu = 1; cpu < MAX_CPUS; cpu += 2)
        CPU_SET_S(cpu, sizeof cpus, cpus);
    slurm_spank_init(NULL, 0, NULL);

    /* A list with a number for each CPU is whole. */
    snprintf(last, sizeof last, ": CPU %d", MAX_CPUS - 1);
    failed |= !says(last);

    /* As with contain_spank: in a process that ends after the call. */
    pid_t pid = fork();
    if (pid == 0)
        _exit(!says("contain_spank"));
    failed |= waitpid(pid, &status, 0) != pid || status != 0;

    /* Each CPU takes its time to start. */
    failed |= ready_ms() < READY_MS + 10 * cpu_count();
    return failed;
}
