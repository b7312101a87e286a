/* An emitter of token streams that writes the truth into each token; what bench/emitter.py does, faster.
 *
 *     emitter RATE      tokens/s of each stream
 *
 * All streams get their token in the same tick, as from a batching server. A token's content is the CLOCK_REALTIME
 * nanosecond just before it was written, followed by a space; the first one is preceded by the nanosecond at which the
 * kernel received the request and a colon. One write a token; the end of an answer goes with its last token. Prints where
 * it listens, ends with its standard input, and then prints what it did as one line of JSON.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { MOST_FDS = 4096, REQUEST_BYTES = 1 << 16, ANSWER_BYTES = 2048, DIGITS = 19 };
static const char CONTENT[] = "\"content\":\"";
static const int64_t SPIN_BELOW_NS = 1000000; /* a sleep may be late by some 50 us: shorter ticks are waited for awake */

static const char HEAD[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n";
/* the shape and length of vLLM's chunks */
#define EVENT                                                                                                         \
    "data: {\"id\":\"chatcmpl-8f2b6c0e5d0b4c0f9a7e\",\"object\":\"chat.completion.chunk\",\"created\":1764450000,"  \
    "\"model\":\"bench\",\"choices\":[{\"index\":0,\"delta\":{%s},\"logprobs\":null,\"finish_reason\":%s}]}\n\n"

typedef struct {
    long asked, left;
    int64_t received_ns;
    size_t filled, unsent;
    char answer[ANSWER_BYTES], request[REQUEST_BYTES + 1];
} Stream;

static Stream *streams[MOST_FDS];
static int most_fd;
static long long tokens, ticks, late_ticks, blocked;
static int64_t longest_tick_ns;

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void drop(int fd) {
    close(fd);
    free(streams[fd]);
    streams[fd] = NULL;
}

static void flush_answer(int fd, Stream *s) {
    ssize_t sent = send(fd, s->answer, s->unsent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
        if (errno != EAGAIN) s->left = 0;
        return;
    }
    s->unsent -= sent;
    if (s->unsent) memmove(s->answer, s->answer + sent, s->unsent);
}

static size_t http_chunk(char *to, const char *data, int size) {
    int head = sprintf(to, "%x\r\n", size);
    memcpy(to + head, data, size);
    memcpy(to + head + size, "\r\n", 2);
    return head + size + 2;
}

/* An event ready to be sent but for its digits: the clock is read after everything else was done. */
typedef struct {
    size_t size, written_at, received_at; /* of the digits */
    char bytes[ANSWER_BYTES / 2];
} Template;

static Template plain, first;

static void make_template(Template *t, const char *content) {
    char event[ANSWER_BYTES / 2];
    t->size = http_chunk(t->bytes, event, sprintf(event, EVENT, content, "null"));
    t->received_at = strstr(t->bytes, CONTENT) + sizeof CONTENT - 1 - t->bytes;
    t->written_at = t->received_at + (t == &first ? DIGITS + 1 : 0);
}

static void put_digits(char *to, int64_t value) {
    for (int i = DIGITS - 1; i >= 0; i--, value /= 10) to[i] = '0' + value % 10;
}

static void emit(int fd, Stream *s) {
    char event[ANSWER_BYTES / 2];
    if (s->unsent) {
        flush_answer(fd, s);
        if (s->unsent) { /* the client does not read: its next token is late */
            blocked++;
            return;
        }
    }
    const Template *t = s->left == s->asked ? &first : &plain;
    memcpy(s->answer, t->bytes, t->size);
    s->unsent = t->size;
    if (t == &first) put_digits(s->answer + t->received_at, s->received_ns);
    s->left--;
    tokens++;
    if (s->left == 0) {
        int size = sprintf(event, EVENT, "", "\"length\"");
        size += sprintf(event + size,
                        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":8,\"completion_tokens\":%ld,\"total_tokens\":%ld}}\n\n"
                        "data: [DONE]\n\n",
                        s->asked, s->asked + 8);
        s->unsent += http_chunk(s->answer + s->unsent, event, size);
        memcpy(s->answer + s->unsent, "0\r\n\r\n", 5);
        s->unsent += 5;
    }
    put_digits(s->answer + t->written_at, clock_ns(CLOCK_REALTIME));
    flush_answer(fd, s);
}

/* 0 when the client is gone. A whole request makes `left` positive. */
static int receive(int fd, Stream *s) {
    char ancillary[64];
    struct iovec into = {s->request + s->filled, REQUEST_BYTES - s->filled};
    struct msghdr message = {.msg_iov = &into, .msg_iovlen = 1, .msg_control = ancillary, .msg_controllen = sizeof ancillary};
    ssize_t size = recvmsg(fd, &message, 0);
    if (size <= 0) return size < 0 && errno == EAGAIN;
    s->received_ns = clock_ns(CLOCK_REALTIME);
    struct cmsghdr *stamp = CMSG_FIRSTHDR(&message);
    if (stamp != NULL && stamp->cmsg_type == SCM_TIMESTAMPNS) {
        struct timespec at;
        memcpy(&at, CMSG_DATA(stamp), sizeof at);
        s->received_ns = at.tv_sec * 1000000000LL + at.tv_nsec;
    }
    s->filled += size;
    s->request[s->filled] = 0;
    char *body = strstr(s->request, "\r\n\r\n"), *length = strcasestr(s->request, "content-length:");
    if (body == NULL) return s->filled < REQUEST_BYTES;
    body += 4;
    long wanted = length != NULL && length < body ? atol(length + 15) : 0;
    if (s->filled - (body - s->request) < (size_t)wanted) return s->filled < REQUEST_BYTES;
    char *most = strstr(body, "\"max_tokens\":");
    s->asked = s->left = most == NULL ? 64 : atol(most + 13);
    s->filled = 0;
    s->unsent = sizeof HEAD - 1;
    memcpy(s->answer, HEAD, s->unsent);
    flush_answer(fd, s);
    return 1;
}

static void take_clients(int listener, int poll) {
    int fd, on = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        if (fd >= MOST_FDS) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
        streams[fd] = calloc(1, sizeof(Stream));
        most_fd = fd > most_fd ? fd : most_fd;
        struct epoll_event event = {EPOLLIN, {.fd = fd}};
        epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
    }
}

static void serve(int listener, int poll, int timer, int64_t tick_ns) {
    struct epoll_event events[256];
    int64_t due = clock_ns(CLOCK_MONOTONIC) + tick_ns;
    int emitted = 0;
    for (;;) {
        if (tick_ns >= SPIN_BELOW_NS) {
            struct itimerspec at = {.it_value = {due / 1000000000LL, due % 1000000000LL}};
            timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
        }
        int ready = epoll_wait(poll, events, 256, tick_ns >= SPIN_BELOW_NS ? -1 : emitted ? 0 : 1);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            char ignored[64];
            if (fd == listener) take_clients(listener, poll);
            else if (fd == timer) continue;
            else if (fd == 0) {
                if (read(0, ignored, sizeof ignored) <= 0) return;
            } else if (streams[fd] != NULL && !receive(fd, streams[fd])) drop(fd);
        }
        int64_t now = clock_ns(CLOCK_MONOTONIC);
        if (now < due) continue;
        emitted = 0;
        for (int fd = 0; fd <= most_fd; fd++)
            if (streams[fd] != NULL && (streams[fd]->left > 0 || streams[fd]->unsent)) {
                if (streams[fd]->left > 0) emit(fd, streams[fd]);
                else flush_answer(fd, streams[fd]);
                emitted = 1;
            }
        int64_t after = clock_ns(CLOCK_MONOTONIC);
        if (emitted) {
            ticks++;
            if (after - now > longest_tick_ns) longest_tick_ns = after - now;
            if (after >= due + tick_ns) late_ticks++;
        }
        due += tick_ns;
        if (due < after) due = after + tick_ns; /* a missed tick is not made up for: no burst that no server sent */
    }
}

int main(int count, char **arguments) {
    double rate = count > 1 ? atof(arguments[1]) : 100;
    int on = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    setsockopt(listener, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on); /* so that first requests are stamped too */
    if (rate <= 0 || bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 4096) != 0) {
        perror("emitter");
        return 1;
    }
    getsockname(listener, (struct sockaddr *)&address, &size);
    int poll = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    int watched[] = {listener, timer, 0};
    for (int i = 0; i < 3; i++) {
        struct epoll_event event = {EPOLLIN, {.fd = watched[i]}};
        epoll_ctl(poll, EPOLL_CTL_ADD, watched[i], &event);
    }
    make_template(&plain, "\"content\":\"0000000000000000000 \"");
    make_template(&first, "\"content\":\"0000000000000000000:0000000000000000000 \"");
    printf("emitter listening on http://127.0.0.1:%d/v1\n", ntohs(address.sin_port));
    fflush(stdout);
    serve(listener, poll, timer, (int64_t)(1e9 / rate));
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("{\"tokens\":%lld,\"ticks\":%lld,\"late_ticks\":%lld,\"blocked\":%lld,\"longest_tick_ms\":%.3f,\"cpu_s\":%.3f}\n", tokens,
           ticks, late_ticks, blocked, longest_tick_ns / 1e6,
           used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    return 0;
}
