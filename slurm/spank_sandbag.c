/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A plugin of Slurm (SPANK) that holds a CPU load or a lower CPU speed around a job step, for
 * users without root:
 *
 *     srun --sandbag-load=50 -N 2 ./app
 *     srun --sandbag-speed=node1=1,node2=0.4 -N 2 ./app
 *
 * slurmstepd, which is root, starts `sandbag` on each node before the tasks of the step run, on
 * exactly the CPUs that the tasks may use, and ends it when the last task has ended. Arguments
 * of plugstack.conf and examples: docs/how-to/slurm-load.md. Built by scripts/spank.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

SPANK_PLUGIN(sandbag, 1)

/* A list of hosts is a pointer, which has been in the name of its type until 23.02. */
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0)
typedef hostlist_t *hosts_t;
#else
typedef hostlist_t hosts_t;
#endif

/* Bounds of every wait, in ms: a failure of sandbag must not hold up a step. sandbag starts a process
   for each CPU. */
enum { READY_MS = 5000, READY_CPU_MS = 50, END_MS = 5000, KILLED_MS = 1000, RESTORE_MS = 5000, LOOK_MS = 2 };
enum { TEXT = 512, MAX_CPUS = 8192, MAX_ARGS = 20, MAX_GROUPS = 16 };

/* Methods that load CPUs. `lim` and `cap` act on programs inside a node, which the tasks of a
   step do not enter (see command_line), and `freq` and `gov` on hardware that jobs share. */
static const char *const METHODS[] = { "pace", "quota", "shares", "hogs", "rt", "deadline" };

/* The arguments of plugstack.conf. */
static struct {
    const char *sandbag;
    const char *users;      /* NULL: all */
    const char *methods;    /* NULL: all of METHODS */
    const char *dir;        /* NULL: no reports */
    double max_load;        /* percent */
    double min_speed;       /* of full speed */
    int strict;
    int settle;             /* wait until the condition is held, and not only until it begins */
} site = { .sandbag = "/usr/bin/sandbag", .max_load = 90, .min_speed = .1 };

/* Why the plugin is off: the first wrong argument of plugstack.conf. Empty if it is on. */
static char broken[TEXT];

/* What the user asked for: texts of the options, NULL without. */
enum { LOAD = 1, SPEED, METHOD };
static char *asked[METHOD + 1];

/* The run of sandbag for this step, in slurmstepd. */
static struct {
    pid_t pid;              /* 0: none */
    int err;                /* its standard error, a file in memory */
    int ready;              /* the socket on which it says READY=1 */
    char what[TEXT];        /* "a load of 50 %" */
    char report[TEXT];      /* directory, or empty */
} run;

static char node[256] = "?";
static cpu_set_t cpus[MAX_CPUS / CPU_SETSIZE];
static uint32_t forked, exited;
/* slurmstepd. */
static pid_t stepd;
/* Shared with the tasks, which are forked before it is known: 1 if the step must fail. */
static int *must_fail;

/* Values -------------------------------------------------------------------------------- */

/* A number with nothing behind it; `50%` is 50, or .5 if `unit` is 100. */
static int number(const char *text, double unit, double *value)
{
    char *end;
    if (!strchr("0123456789.", *text))
        return -1;      /* neither a sign nor "inf" nor blanks */
    *value = strtod(text, &end);
    if (*end == '%') {
        *value /= unit;
        end++;
    }
    return end == text || *end || !isfinite(*value) ? -1 : 0;
}

static int in_list(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (; *list; list += strcspn(list, ","), list += *list == ',')
        if (strcspn(list, ",") == length && !strncmp(list, word, length))
            return 1;
    return 0;
}

/* The end of the next piece of a list whose names may have commas in brackets, n[1,3]. */
static size_t piece(const char *list)
{
    size_t n;
    int depth = 0;
    for (n = 0; list[n] && (depth || list[n] != ','); n++)
        depth += (list[n] == '[') - (list[n] == ']');
    return n;
}

/* Whether a name of a list has two pairs of brackets, which can stand for more names than there is
   memory. */
static int has_two_pairs(const char *list)
{
    for (size_t length; *list; list += length + (list[length] == ',')) {
        length = piece(list);
        const char *bracket = memchr(list, '[', length);
        if (bracket && memchr(bracket + 1, '[', length - (size_t)(bracket + 1 - list)))
            return 1;
    }
    return 0;
}

static int has_host(const char *hosts, const char *host)
{
    hosts_t list = slurm_hostlist_create(hosts);
    int found = list && slurm_hostlist_find(list, host) >= 0;
    if (list)
        slurm_hostlist_destroy(list);
    return found;
}

/* Text of a user goes to the log of slurmd, where it must not look like other lines. */
static void one_line(char *text)
{
    for (; *text; text++)
        if (iscntrl((unsigned char)*text))
            *text = '?';
}

/* Checks the text of a load or speed, a number or NODE=NUMBER,..., and takes the value for
   `host` from it. 1: there is one; 0: the text does not name the host; -1: wrong, and why. */
static int value_of(int option, const char *text, const char *host, double *value, char *why)
{
    int found = 0;
    char part[TEXT];
    if (!*text) {
        snprintf(why, TEXT, "a value is missing");
        return -1;
    }
    for (const char *rest = text; *rest;) {
        size_t length = piece(rest);
        double here;
        if (length >= sizeof part) {
            snprintf(why, TEXT, "a part of the text is too long");
            return -1;
        }
        memcpy(part, rest, length);
        part[length] = 0;
        rest += length + (rest[length] == ',');
        char *equal = strrchr(part, '=');
        if (equal)
            *equal = 0;
        if (equal && has_two_pairs(part)) {
            snprintf(why, TEXT, "'%.200s': a name may have one pair of brackets", part);
            return -1;
        }
        if (!equal && (*rest || strchr(text, '='))) {
            snprintf(why, TEXT, "'%.200s': expected one number for all nodes, or NODE=NUMBER for each", part);
            return -1;
        }
        const char *digits = equal ? equal + 1 : part;
        if (number(digits, option == SPEED ? 100 : 1, &here)) {
            snprintf(why, TEXT, "'%.200s' is not a number", digits);
            return -1;
        }
        if (option == LOAD && here > site.max_load) {
            snprintf(why, TEXT, "a load of %g %% is above the limit of this cluster, %g %%", here, site.max_load);
            return -1;
        }
        if (option == SPEED && here > 1) {
            snprintf(why, TEXT, "a speed of %g is above 1, the full speed", here);
            return -1;
        }
        if (option == SPEED && here < site.min_speed) {
            snprintf(why, TEXT, "a speed of %g is below the limit of this cluster, %g", here, site.min_speed);
            return -1;
        }
        if (!equal || (host && has_host(part, host))) {
            *value = here;
            found = 1;
        }
    }
    return found;
}

static int allowed_user(uid_t uid)
{
    char id[24], space[16384];
    struct passwd entry, *found = NULL;
    if (!site.users || uid == 0)
        return 1;
    snprintf(id, sizeof id, "%u", (unsigned)uid);
    if (in_list(site.users, id))
        return 1;
    return !getpwuid_r(uid, &entry, space, sizeof space, &found) && found &&
           in_list(site.users, found->pw_name);
}

/* Why this user may not have this option with this text; 0 if he may. */
static int refused(int option, const char *text, uid_t uid, char *why)
{
    double ignored;
    if (*broken) {
        snprintf(why, TEXT, "the plugin is off, because its configuration has an error: %.300s", broken);
        return -1;
    }
    if (!allowed_user(uid)) {
        snprintf(why, TEXT, "user %u is not among those who may use it here", (unsigned)uid);
        return -1;
    }
    if (option != METHOD)
        return value_of(option, text, NULL, &ignored, why) < 0 ? -1 : 0;
    for (size_t n = 0; n < sizeof METHODS / sizeof *METHODS; n++)
        if (!strcmp(METHODS[n], text) && (!site.methods || in_list(site.methods, text)))
            return 0;
    snprintf(why, TEXT, "the method '%.100s' cannot be asked for here", text);
    return -1;
}

/* Configuration ------------------------------------------------------------------------- */

static void wrong(const char *argument, const char *expected)
{
    if (!*broken)
        snprintf(broken, sizeof broken, "'%.200s' in plugstack.conf: expected %s", argument, expected);
}

static void configure(int count, char **arguments)
{
    static int done;
    if (done++)
        return;
    for (int n = 0; n < count; n++) {
        const char *argument = arguments[n];
        char *copy = strdup(argument), *value = copy ? strchr(copy, '=') : NULL;
        if (!copy)
            return wrong(argument, "memory");
        if (value)
            *value++ = 0;
        if (!strcmp(copy, "strict") && !value) {
            site.strict = 1;
        } else if (!strcmp(copy, "settle") && !value) {
            site.settle = 1;
        } else if (!value || !*value) {
            wrong(argument, "sandbag=, users=, max_load=, min_speed=, methods=, dir= with a value, strict or settle");
        } else if (!strcmp(copy, "sandbag")) {
            site.sandbag = value;
            if (*value != '/')
                wrong(argument, "a full path");
        } else if (!strcmp(copy, "dir")) {
            site.dir = value;
            if (*value != '/')
                wrong(argument, "a full path");
        } else if (!strcmp(copy, "users")) {
            site.users = value;
        } else if (!strcmp(copy, "max_load")) {
            if (number(value, 1, &site.max_load) || site.max_load > 100)
                wrong(argument, "a percentage, 0 to 100");
        } else if (!strcmp(copy, "min_speed")) {
            if (number(value, 100, &site.min_speed) || site.min_speed <= 0 || site.min_speed > 1)
                wrong(argument, "a speed above 0, at most 1");
        } else if (!strcmp(copy, "methods")) {
            char list[TEXT] = "", *rest = value;
            site.methods = value;
            for (size_t m = 0; m < sizeof METHODS / sizeof *METHODS; m++)
                strcat(strcat(list, *list ? "," : ""), METHODS[m]);
            for (; *rest; rest += strcspn(rest, ","), rest += *rest == ',') {
                char word[32];
                snprintf(word, sizeof word, "%.*s", (int)strcspn(rest, ","), rest);
                if (!in_list(list, word))
                    wrong(argument, "some of pace,quota,shares,hogs,rt,deadline");
            }
        } else {
            wrong(argument, "sandbag=, users=, max_load=, min_speed=, methods=, dir=, strict or settle");
        }
        /* Not freed: `site` points into it. */
    }
}

/* CPUs ---------------------------------------------------------------------------------- */

static int cpu_count(void)
{
    return CPU_COUNT_S(sizeof cpus, cpus);
}

/* "0-3,8" */
static void cpu_list(char *text, size_t size)
{
    size_t used = 0;
    *text = 0;
    for (int first = 0, last; first < MAX_CPUS && used < size; first = last + 1) {
        last = first;
        if (!CPU_ISSET_S(first, sizeof cpus, cpus))
            continue;
        while (last + 1 < MAX_CPUS && CPU_ISSET_S(last + 1, sizeof cpus, cpus))
            last++;
        used += snprintf(text + used, size - used, last > first ? "%s%d-%d" : "%s%d",
                         used ? "," : "", first, last);
    }
}

/* The process ---------------------------------------------------------------------------- */

static long now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000L + t.tv_nsec / 1000000;
}

/* On cgroup v1 slurmstepd is in groups of the job, where proctrack/cgroup looks for processes
   to kill and where limits of the job hold. sandbag is neither a task nor charged to
   the job: it goes to the groups above Slurm's. Not on v2, where slurmstepd is in a group of
   its own. The files to write to, found before the fork. */
static int groups_to_join(char paths[][TEXT])
{
    char line[TEXT];
    int count = 0;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && count < MAX_GROUPS && fgets(line, sizeof line, file)) {
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path || path == controllers + 1 || strchr(line, '=') || !strstr(path, "/job_"))
            continue;
        *path++ = 0;
        char *slurm = strstr(path, "/slurm");
        if (!slurm)
            continue;
        *slurm = 0;
        snprintf(paths[count++], TEXT, "/sys/fs/cgroup/%.100s%.300s/cgroup.procs", controllers + 1, path);
    }
    if (file)
        fclose(file);
    return count;
}

/* Starts a program with `err` as its standard error. Only async-signal-safe calls after the
   fork: slurmstepd has threads. */
static pid_t start_process(char *const *arguments, char *const *environment, int err)
{
    char paths[MAX_GROUPS][TEXT];
    int groups = groups_to_join(paths);
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    /* If slurmstepd is killed, sandbag ends as it does at the end of a step. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(127);
    setsid();
    for (int n = 0; n < groups; n++) {
        int fd = open(paths[n], O_WRONLY | O_CLOEXEC);
        if (fd >= 0 && write(fd, "0", 1) != 1) {
            /* It stays where it is. */
        }
    }
    int null = open("/dev/null", O_RDWR);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(err, 2) < 0 || chdir("/"))
        _exit(127);
    /* Pipes of the tasks' output among them, on which srun waits. */
    if (syscall(SYS_close_range, 3U, ~0U, 0U)) {
        long most = sysconf(_SC_OPEN_MAX);
        for (int fd = 3; fd < (most > 0 && most < 65536 ? most : 65536); fd++)
            close(fd);
    }
    umask(022);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(arguments[0], arguments, environment);
    static const char text[] = "cannot be executed: see sandbag= in plugstack.conf\n";
    if (write(2, text, sizeof text - 1) < 0)
        _exit(126);
    _exit(127);
}

/* Waits for the end of a process: 1 ended, 0 not within `ms`. `*status` is -1 if slurmstepd
   took the exit code. A process that did not end is still ours, so its number is not reused:
   only this thread waits for children. */
static int ended(pid_t pid, int ms, int *status)
{
    for (long until = now_ms() + ms;;) {
        pid_t got = waitpid(pid, status, WNOHANG);
        if (got == pid)
            return 1;
        if (got < 0 && errno == ECHILD) {
            *status = -1;
            return 1;
        }
        if (now_ms() >= until)
            return 0;
        poll(NULL, 0, LOOK_MS);
    }
}

static int text_in_memory(void)
{
    return memfd_create("sandbag", MFD_CLOEXEC);
}

/* What sandbag wrote to its standard error, in one line. */
static void its_words(int err, char *text, size_t size)
{
    ssize_t length = err < 0 ? 0 : pread(err, text, size - 1, 0);
    text[length > 0 ? length : 0] = 0;
    if (!strncmp(text, "sandbag: ", 9))
        memmove(text, text + 9, strlen(text + 9) + 1);
    for (char *c = text; *c; c++)
        if (*c == '\n')
            *c = c[1] ? ' ' : 0;
    if (!*text)
        snprintf(text, size, "without a message");
}

static void restore(void)
{
    char *arguments[] = { (char *)site.sandbag, "-q", "restore", NULL };
    char *environment[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };
    char text[TEXT];
    int err = text_in_memory(), status = 0;
    pid_t pid = err < 0 ? -1 : start_process(arguments, environment, err);
    if (pid > 0 && !ended(pid, RESTORE_MS, &status)) {
        kill(pid, SIGKILL);
        ended(pid, KILLED_MS, &status);
        slurm_error("sandbag: %s: `sandbag restore` did not end within %d s", node, RESTORE_MS / 1000);
    } else if (pid > 0 && status > 0) {
        its_words(err, text, sizeof text);
        slurm_error("sandbag: %s: `sandbag restore` failed: %s", node, text);
    }
    if (err >= 0)
        close(err);
}

/* The sentence behind the verdict, from run.json; empty without a report. It comes after what is
   said of each CPU, about 1 KB. */
static void reason(char *text, size_t size)
{
    static const char key[] = "\n  \"reason\": \"";
    enum { MOST = 16 << 20 };
    char path[TEXT + 16], *json = NULL, *at, *to = text;
    struct stat found;
    ssize_t length = 0, more;
    *text = 0;
    snprintf(path, sizeof path, "%s/run.json", run.report);
    int fd = *run.report ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (fd < 0)
        return;
    if (!fstat(fd, &found) && found.st_size <= MOST)
        json = malloc((size_t)found.st_size + 1);
    while (json && (more = read(fd, json + length, (size_t)(found.st_size - length))) > 0)
        length += more;
    close(fd);
    if (!json)
        return;
    json[length] = 0;
    if ((at = strstr(json, key)))
        for (at += sizeof key - 1; *at && *at != '"' && to < text + size - 1; at++)
            if (*at != '\\')
                *to++ = *at;
    *to = 0;
    free(json);
}

/* Ends the run and says if the condition was not kept. Nothing if there is none. */
static void end_run(void)
{
    char text[TEXT];
    int status = 0, signalled = 0, killed = 0;
    if (!run.pid)
        return;
    if (!ended(run.pid, 0, &status)) {
        signalled = 1;
        kill(run.pid, SIGTERM);
        if (!ended(run.pid, END_MS, &status)) {
            killed = 1;
            kill(run.pid, SIGKILL);
            ended(run.pid, KILLED_MS, &status);
        }
    }
    run.pid = 0;
    its_words(run.err, text, sizeof text);
    close(run.err);
    if (killed) {
        /* A report of many CPUs and hours takes its time; its verdict is written first. */
        reason(text, sizeof text);
        slurm_error("sandbag: %s: sandbag did not end within %d s and was killed%s%s", node,
                    END_MS / 1000, *text ? "; its report says: " : "", text);
    } else if (status == -1 || WIFSIGNALED(status))
        slurm_spank_log("sandbag: %s: %s ended before the step did", node, run.what);
    else if (WEXITSTATUS(status) == 3 || WEXITSTATUS(status) == 4) {
        reason(text, sizeof text);
        slurm_spank_log("sandbag: %s: %s was %s%s%s%s%s", node, run.what,
                        WEXITSTATUS(status) == 3 ? "missed" : "undecided", *text ? ": " : "", text,
                        *run.report ? "; see " : "", run.report);
    } else if (WEXITSTATUS(status))
        slurm_error("sandbag: %s: %s%s: %s", node, run.what, signalled ? "" : " ended early", text);
    /* After a kill of all its processes at once nobody else has undone its changes. */
    if (killed || status == -1 || WIFSIGNALED(status))
        restore();
}

static int ready_ms(void)
{
    return READY_MS + READY_CPU_MS * cpu_count();
}

/* 1: the condition is held; 0: sandbag ended instead; -1: neither within ready_ms. */
static int wait_until_held(int *status)
{
    for (long until = now_ms() + ready_ms(); now_ms() < until;) {
        struct pollfd look = { .fd = run.ready, .events = POLLIN };
        if (poll(&look, 1, 20) > 0) {
            char word[64], space[CMSG_SPACE(sizeof(struct ucred))];
            struct iovec part = { word, sizeof word };
            struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1,
                                      .msg_control = space, .msg_controllen = sizeof space };
            ssize_t length = recvmsg(run.ready, &message, MSG_DONTWAIT);
            struct cmsghdr *head = length < 0 ? NULL : CMSG_FIRSTHDR(&message);
            struct ucred who = { .uid = 1 };
            if (head && head->cmsg_type == SCM_CREDENTIALS)
                memcpy(&who, CMSG_DATA(head), sizeof who);
            /* Any user can send to a socket without a path. */
            if (who.uid == 0 && length >= 7 && !memcmp(word, "READY=1", 7))
                return 1;
        }
        if (ended(run.pid, 0, status))
            return 0;
    }
    return -1;
}

/* A socket with a name that the kernel chooses, for NOTIFY_SOCKET. */
static int ready_socket(char *variable, size_t size)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    socklen_t length = sizeof name;
    int on = 1, fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) ||
        bind(fd, (struct sockaddr *)&name, sizeof name.sun_family) ||
        getsockname(fd, (struct sockaddr *)&name, &length)) {
        close(fd);
        return -1;
    }
    snprintf(variable, size, "NOTIFY_SOCKET=@%.*s",
             (int)(length - offsetof(struct sockaddr_un, sun_path) - 1), name.sun_path + 1);
    return fd;
}

/* The directory of reports: root writes there, so nobody else may. */
static int has_dir(char *why)
{
    struct stat is;
    if (mkdir(site.dir, 0755) && errno != EEXIST) {
        snprintf(why, TEXT, "the directory %.300s cannot be made: %s", site.dir, strerror(errno));
        return 0;
    }
    if (lstat(site.dir, &is) || !S_ISDIR(is.st_mode) || is.st_uid != 0 || is.st_mode & 022) {
        snprintf(why, TEXT, "%.300s must be a directory of root's to which nobody else can write", site.dir);
        return 0;
    }
    return 1;
}

/* A load is `sandbag load`. A speed is one `sandbag slow` without a program over all CPUs of
 * the step: the methods that plugstack.conf may name slow CPUs with all that runs there. So
 * the tasks need not enter the node (`slow --pid`), which would take them out of the groups in
 * which Slurm finds, limits and accounts for them, and which several tasks, that are no tree,
 * could not do in one run. */
static int command_line(char **arguments, char *load, char *speed, char *list)
{
    int n = 0;
    arguments[n++] = (char *)site.sandbag;
    arguments[n++] = "-q";
    arguments[n++] = speed ? "slow" : "load";
    if (!speed)
        arguments[n++] = load;
    arguments[n++] = "--cpus";
    arguments[n++] = list;
    if (speed) {
        arguments[n++] = "--speed";
        arguments[n++] = speed;
        if (load) {
            arguments[n++] = "--load";
            arguments[n++] = load;
        }
    }
    if (asked[METHOD]) {
        arguments[n++] = "--method";
        arguments[n++] = asked[METHOD];
    }
    if (!site.settle)
        arguments[n++] = "--no-settle";
    if (*run.report) {
        arguments[n++] = "--out";
        arguments[n++] = run.report;
        arguments[n++] = "--force";     /* of a job that was requeued */
    } else {
        arguments[n++] = "--no-out";
    }
    arguments[n] = NULL;
    return n;
}

/* A name that is no node of the step is most likely a mistake. Said by the first node: srun
   does not have the list of nodes yet when it calls a plugin. The list is from the environment of
   the step, which a user can change, so it is good for a message only. */
static void check_names(spank_t spank)
{
    enum { SHOWN = 5, MOST = 65536 };
    static char nodes[65536];
    char names[TEXT] = "", others[40] = "", *host;
    uint32_t number = 1;
    int unknown, shown = 0;
    if (spank_get_item(spank, S_JOB_NODEID, &number) || number != 0 ||
        spank_getenv(spank, "SLURM_STEP_NODELIST", nodes, sizeof nodes) != ESPANK_SUCCESS ||
        has_two_pairs(nodes))
        return;
    hosts_t step = slurm_hostlist_create(nodes), named = slurm_hostlist_create(NULL);
    hosts_t both = slurm_hostlist_create(nodes);
    for (int option = LOAD; option <= SPEED && named && both; option++) {
        for (const char *rest = asked[option]; rest && *rest;) {
            char part[TEXT], *equal;
            size_t length = piece(rest);
            snprintf(part, sizeof part, "%.*s", (int)length, rest);
            rest += length + (rest[length] == ',');
            if (!(equal = strrchr(part, '=')))
                continue;
            *equal = 0;
            slurm_hostlist_push(named, part);
            slurm_hostlist_push(both, part);
        }
    }
    /* Counted without a look at each: x[0-65535] is one text. */
    if (step && named && both && slurm_hostlist_count(step) <= MOST) {
        slurm_hostlist_uniq(step);
        slurm_hostlist_uniq(named);
        slurm_hostlist_uniq(both);
        unknown = slurm_hostlist_count(both) - slurm_hostlist_count(step);
        while (shown < unknown && shown < SHOWN && (host = slurm_hostlist_shift(named))) {
            if (slurm_hostlist_find(step, host) < 0) {
                size_t used = strlen(names);
                snprintf(names + used, sizeof names - used, "%s%.64s", shown++ ? ", " : "", host);
            }
            free(host);
        }
        if (unknown > shown)
            snprintf(others, sizeof others, " and %d others", unknown - shown);
        one_line(names);
        one_line(nodes);
        if (shown)
            slurm_error("sandbag: not nodes of this step (%.200s): %s%s", nodes, names, others);
    }
    if (step)
        slurm_hostlist_destroy(step);
    if (named)
        slurm_hostlist_destroy(named);
    if (both)
        slurm_hostlist_destroy(both);
}

/* Starts sandbag and waits until the condition is held: 0, or -1 and why not. */
static int start_run(spank_t spank, char *why)
{
    /* For a list of all CPUs one by one. */
    static char list[5 * MAX_CPUS];
    char load_text[32], speed_text[32], notify[160], job[64];
    char *arguments[MAX_ARGS], *load = NULL, *speed = NULL;
    char *environment[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", notify, job, NULL };
    uint32_t job_id = 0, step_id = 0;
    uint16_t given = 0;
    uid_t uid = (uid_t)-1;
    double value;
    int status = 0, held;

    if (spank_get_item(spank, S_JOB_UID, &uid) || spank_get_item(spank, S_JOB_ID, &job_id) ||
        spank_get_item(spank, S_JOB_STEPID, &step_id)) {
        snprintf(why, TEXT, "Slurm does not say which step this is");
        return -1;
    }
    /* srun has checked the same, but a user can have an srun of his own. */
    for (int option = LOAD; option <= METHOD; option++)
        if (asked[option] && refused(option, asked[option], uid, why))
            return -1;
    check_names(spank);
    if (asked[LOAD] && value_of(LOAD, asked[LOAD], node, &value, why) > 0) {
        snprintf(load_text, sizeof load_text, "%g", value);
        load = load_text;
    }
    if (asked[SPEED] && value_of(SPEED, asked[SPEED], node, &value, why) > 0) {
        snprintf(speed_text, sizeof speed_text, "%g", value);
        speed = speed_text;
    }
    if (!load && !speed)
        return 0;       /* nothing for this node */
    /* sandbag ends with the process that starts it, and only that process can wait for it. */
    if (getpid() != stepd) {
        snprintf(why, TEXT, "Slurm runs plugins in a process of their own, with which sandbag would end: "
                 "remove contain_spank from SlurmdParameters in slurm.conf");
        return -1;
    }

    /* S_JOB_NCPUS is of this step on this node, by its credential, which users cannot change: its
       cores, times their threads where the CPUs of slurm.conf are threads. So threads are not
       counted here once more. Where its CPUs are cores, a task may be bound to all threads of its
       core, and is refused: Slurm does not tell plugins how many threads its cores have, and those
       of the kernel may be the cores of Slurm. S_STEP_ALLOC_CORES has cores by Slurm's numbers,
       not the kernel's. */
    if (spank_get_item(spank, S_JOB_NCPUS, &given) || cpu_count() > given) {
        snprintf(why, TEXT, "the tasks may run on %d CPUs, but the step has %u here: CPUs of others "
                 "would be loaded too (TaskPlugin must bind tasks, --cpu-bind=none must not be given; "
                 "where Slurm counts cores, give --hint=nomultithread)", cpu_count(), given);
        return -1;
    }
    cpu_list(list, sizeof list);
    snprintf(run.what, sizeof run.what, "%s%s%s%s%s", speed ? "a speed of " : "", speed ? speed : "",
             speed && load ? " and " : "", load ? "a load of " : "", load ? load : "");
    if (load)
        strcat(run.what, " %");
    *run.report = 0;
    if (site.dir) {
        if (!has_dir(why))
            return -1;
        snprintf(run.report, sizeof run.report, "%.300s/%u.%u-%.100s", site.dir, job_id, step_id, node);
    }
    snprintf(job, sizeof job, "SANDBAG_SLURM_JOB=%u", job_id);
    command_line(arguments, load, speed, list);

    run.ready = ready_socket(notify, sizeof notify);
    run.err = run.ready < 0 ? -1 : text_in_memory();
    run.pid = run.err < 0 ? -1 : start_process(arguments, environment, run.err);
    if (run.pid < 0) {
        snprintf(why, TEXT, "sandbag cannot be started: %s", strerror(errno));
        run.pid = 0;
        if (run.err >= 0)
            close(run.err);
        if (run.ready >= 0)
            close(run.ready);
        return -1;
    }
    held = wait_until_held(&status);
    close(run.ready);
    if (held > 0)
        return 0;
    if (held < 0) {
        snprintf(why, TEXT, "%.400s is not held after %d s", run.what, ready_ms() / 1000);
        return -1;
    }
    its_words(run.err, why, TEXT);
    close(run.err);
    run.pid = 0;
    if (status == -1 || WIFSIGNALED(status))
        restore();
    return -1;
}

/* Callbacks ------------------------------------------------------------------------------ */

static int take_option(int option, const char *text, int remote)
{
    char why[TEXT];
    if (!text)
        text = "";
    if (!remote && refused(option, text, getuid(), why)) {
        slurm_error("sandbag: %s", why);
        return -1;
    }
    /* May be called twice: the environment first, then the command line. */
    free(asked[option]);
    asked[option] = strdup(text);
    return asked[option] ? 0 : -1;
}

static struct spank_option options[] = {
    { "sandbag-load", "PERCENT|NODE=PERCENT,...",
      "Hold this load on each CPU of the step", 1, LOAD, take_option },
    { "sandbag-speed", "SPEED|NODE=SPEED,...",
      "Slow the CPUs of the step down to this part of their speed", 1, SPEED, take_option },
    { "sandbag-method", "NAME",
      "How the load or speed is made (see `sandbag help load`, `slow`)", 1, METHOD, take_option },
};

/* Remote: a step that runs tasks of a user by srun. Not the batch script, not the step of
   external processes, not the shell of salloc: the job would be loaded twice. */
static int in_normal_step(spank_t spank)
{
    uint32_t step = 0;
    return spank_remote(spank) == 1 && !spank_get_item(spank, S_JOB_STEPID, &step) &&
           step <= SLURM_MAX_NORMAL_STEP_ID && (asked[LOAD] || asked[SPEED]);
}

/* Never fails: a wrong argument must stop neither slurmd nor steps that ask for nothing. */
int slurm_spank_init(spank_t spank, int count, char **arguments)
{
    spank_context_t context = spank_context();
    configure(count, arguments);
    if (context == S_CTX_REMOTE)
        stepd = getpid();
    if (context == S_CTX_SLURMD && *broken)
        slurm_error("sandbag: %s. The plugin is off.", broken);
    if (context == S_CTX_LOCAL || context == S_CTX_ALLOCATOR || context == S_CTX_REMOTE)
        for (size_t n = 0; n < sizeof options / sizeof *options; n++)
            if (spank_option_register(spank, &options[n]) != ESPANK_SUCCESS)
                slurm_error("sandbag: the option --%s is not available", options[n].name);
    return 0;
}

int slurm_spank_init_post_opt(spank_t spank, int count, char **arguments)
{
    (void)count, (void)arguments;
    if (spank_remote(spank) != 1) {
        if (asked[METHOD] && !asked[LOAD] && !asked[SPEED])
            slurm_error("sandbag: --sandbag-method does nothing without --sandbag-load or --sandbag-speed");
    } else if (in_normal_step(spank) && site.strict) {
        must_fail = mmap(NULL, sizeof *must_fail, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (must_fail == MAP_FAILED)
            must_fail = NULL;
    }
    return 0;
}

/* It becomes part of a path. */
static int is_name(const char *text)
{
    return isalnum((unsigned char)*text) &&
           !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")];
}

/* The name of this node in Slurm, which is not the host's where several slurmd share a host.
   slurmstepd has it from slurmd and puts it into its own environment. The environment of the step,
   spank_getenv, has that of the node where srun runs, or whatever the user likes; the list of
   nodes in it is the user's too, and S_JOB_NODEID is no place in it where a step spans the parts
   of a heterogeneous job. */
static void name_of_node(void)
{
    const char *name = getenv("SLURMD_NODENAME");
    if (name && strlen(name) < sizeof node && is_name(name)) {
        strcpy(node, name);
        return;
    }
    if (gethostname(node, sizeof node))
        *node = 0;
    node[sizeof node - 1] = 0;
    node[strcspn(node, ".")] = 0;
    if (!is_name(node))
        strcpy(node, "unknown");
}

/* slurmstepd, as root, for each task, whose CPUs are set by now; no task runs before the last
   of these calls ends. */
int slurm_spank_task_post_fork(spank_t spank, int count, char **arguments)
{
    static cpu_set_t of_task[MAX_CPUS / CPU_SETSIZE];
    char why[TEXT] = "";
    uint32_t tasks = 0;
    pid_t pid = 0;
    (void)count, (void)arguments;
    if (!in_normal_step(spank))
        return 0;
    forked++;
    if (!spank_get_item(spank, S_TASK_PID, &pid) && !sched_getaffinity(pid, sizeof of_task, of_task))
        CPU_OR_S(sizeof cpus, cpus, cpus, of_task);
    if (spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &tasks) || forked != tasks)
        return 0;
    name_of_node();
    if (start_run(spank, why)) {
        one_line(why);
        slurm_error("sandbag: %s: %s", node, why);
        if (must_fail) {
            *must_fail = 1;
            end_run();
        } else if (!run.pid) {
            slurm_spank_log("sandbag: %s: the step runs without the condition", node);
        }
    }
    return 0;
}

/* The task, as the user, after all calls of task_post_fork. Returning an error would have an
   effect only where plugstack.conf calls the plugin `required`. */
int slurm_spank_task_init(spank_t spank, int count, char **arguments)
{
    (void)spank, (void)count, (void)arguments;
    if (must_fail && *must_fail)
        _exit(1);
    return 0;
}

int slurm_spank_task_exit(spank_t spank, int count, char **arguments)
{
    uint32_t tasks = 0;
    (void)count, (void)arguments;
    if (run.pid && !spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &tasks) && ++exited >= tasks)
        end_run();
    return 0;
}

/* Also after a step that was cancelled, or whose tasks could not be started. */
int slurm_spank_exit(spank_t spank, int count, char **arguments)
{
    (void)count, (void)arguments;
    if (spank_remote(spank) == 1)
        end_run();
    return 0;
}

/* Nothing. slurmd loads only plugins that have this, and its log is where an administrator sees
   an error of plugstack.conf. */
int slurm_spank_slurmd_exit(spank_t spank, int count, char **arguments)
{
    (void)spank, (void)count, (void)arguments;
    return 0;
}
