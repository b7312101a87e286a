/* The floor: a client that does the system calls of a collector and nothing else. No parsing, no records.
 *
 *     reader PORT STREAMS TOKENS ROUNDS [errors]
 *
 * All streams of a round are asked for at once and end together, then the next round begins; the first is a warm-up. One
 * epoll for all sockets, one recvmsg with the kernel's arrival stamp a token. Prints one line of JSON. With `errors` it also
 * compares each stamp with the truth in the token, which costs CPU: its `cpu_us` is then no floor.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_FDS = 4096, READ_BYTES = 65536 };
static const char CONTENT[] = "\"content\":\"", END[] = "0\r\n\r\n";
static int64_t sent_ns[MOST_FDS], lag_max_ns;
static double *errors, *ttft_errors;
static long error_count, ttft_count, error_room, merged;
static char buffer[READ_BYTES + 1];

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static double cpu_s(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void fail(const char *words) {
    perror(words);
    exit(1);
}

static void compare(int fd, int64_t arrived_ns) {
    long before = error_count;
    for (char *at = buffer; (at = strstr(at, CONTENT)) != NULL;) {
        at += sizeof CONTENT - 1;
        merged += error_count > before;
        int64_t truth = strtoll(at, &at, 10);
        if (*at == ':') {
            int64_t received = truth;
            truth = strtoll(at + 1, &at, 10);
            if (ttft_count < error_room) ttft_errors[ttft_count++] = (arrived_ns - sent_ns[fd] - (truth - received)) / 1e6;
        }
        if (error_count < error_room) errors[error_count++] = (arrived_ns - truth) / 1e6;
    }
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_errors(const char *name, double *values, long count) {
    if (count == 0) return;
    qsort(values, count, sizeof *values, ascending);
    printf(",\"%s\":{\"p50\":%.6f,\"p99\":%.6f,\"max\":%.6f,\"samples\":%ld}", name, values[(count - 1) / 2],
           values[(long)((count - 1) * 0.99)], values[count - 1], count);
}

/* Whether the answer has ended. */
static int receive(int fd, int judged) {
    char ancillary[64];
    struct iovec into = {buffer, READ_BYTES};
    struct msghdr message = {.msg_iov = &into, .msg_iovlen = 1, .msg_control = ancillary, .msg_controllen = sizeof ancillary};
    ssize_t size = recvmsg(fd, &message, 0);
    int64_t read_ns = clock_ns(CLOCK_REALTIME), arrived_ns = read_ns;
    if (size < 0 && errno == EAGAIN) return 0;
    if (size <= 0) fail("the emitter has gone");
    struct cmsghdr *stamp = CMSG_FIRSTHDR(&message);
    if (stamp != NULL && stamp->cmsg_type == SCM_TIMESTAMPNS) {
        struct timespec at;
        memcpy(&at, CMSG_DATA(stamp), sizeof at);
        arrived_ns = at.tv_sec * 1000000000LL + at.tv_nsec;
    }
    if (judged && read_ns - arrived_ns > lag_max_ns) lag_max_ns = read_ns - arrived_ns;
    if (judged && error_room > 0) {
        buffer[size] = 0;
        compare(fd, arrived_ns);
    }
    return size >= 5 && memcmp(buffer + size - 5, END, 5) == 0;
}

int main(int count, char **arguments) {
    if (count < 5) return fprintf(stderr, "usage: reader PORT STREAMS TOKENS ROUNDS [errors]\n"), 2;
    int port = atoi(arguments[1]), streams = atoi(arguments[2]), tokens = atoi(arguments[3]), rounds = atoi(arguments[4]);
    int *fds = calloc(streams, sizeof *fds), on = 1, poll = epoll_create1(0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char body[256], request[512];
    int size = sprintf(body, "{\"model\":\"bench\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"stream\":true,\"max_tokens\":%d}", tokens);
    size = sprintf(request, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", size, body);
    if (count > 5) {
        error_room = (long)streams * tokens * rounds;
        errors = calloc(error_room, sizeof *errors);
        ttft_errors = calloc(error_room, sizeof *ttft_errors);
    }
    for (int i = 0; i < streams; i++) {
        int fd = fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (fd >= MOST_FDS || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) fail("connect");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
        struct epoll_event event = {EPOLLIN, {.fd = fd}};
        epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
    }
    double before_s = 0;
    int64_t began_ns = 0;
    for (int round = 0; round <= rounds; round++) {
        if (round == 1) {
            before_s = cpu_s();
            began_ns = clock_ns(CLOCK_MONOTONIC);
        }
        for (int i = 0; i < streams; i++) {
            sent_ns[fds[i]] = clock_ns(CLOCK_REALTIME);
            if (send(fds[i], request, size, MSG_NOSIGNAL) != size) fail("send");
        }
        for (int open = streams; open > 0;) {
            struct epoll_event events[1024];
            int ready = epoll_wait(poll, events, 1024, 30000);
            if (ready <= 0) fail("nothing came for 30 s");
            for (int i = 0; i < ready; i++) open -= receive(events[i].data.fd, round > 0);
        }
    }
    double used_s = cpu_s() - before_s, took_s = (clock_ns(CLOCK_MONOTONIC) - began_ns) / 1e9;
    long total = (long)streams * tokens * rounds;
    printf("{\"tokens\":%ld,\"took_s\":%.6f,\"cpu_us\":%.4f,\"read_lag_max_ms\":%.3f", total, took_s, used_s / total * 1e6, lag_max_ns / 1e6);
    if (error_count > 0) printf(",\"coalesced_share\":%.6f", (double)merged / error_count);
    print_errors("error_ms", errors, error_count);
    print_errors("ttft_error_ms", ttft_errors, ttft_count);
    printf("}\n");
    return 0;
}
