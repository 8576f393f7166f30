/* Two links between three hosts, packet by packet: client - resolver - server.

   Each host is a TUN device whose file we were given. A packet goes to the host that has its destination address, over
   the link between the two; it waits the link's delay, or is lost. What is for nobody, or not for a neighbour, is dropped.

   usage: packet_link SEED DELAY_US LOSS_PPM DELAY_US LOSS_PPM FD ADDRESS FD ADDRESS FD ADDRESS
   (the near link, then the far one; client, resolver, server). For each line on standard input it prints what has crossed
   so far: questions and their octets, answers and theirs, of each link, and what was lost. It ends with its input. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 65536u /* of each queue, a power of two */
#define MAX_PACKET 2048
#define BATCH 64
#define UDP 17

struct waiting {
    uint64_t due;
    int size;
    unsigned char *octets;
};

/* A direction of a link: first in, first out, since every packet takes as long as any other. */
struct direction {
    struct waiting *queue;
    unsigned head, tail;
    unsigned long long packets, octets;
};

static struct direction directions[2][2]; /* [link][is_down] */
static uint64_t delay[2], loss[2];        /* nanoseconds; out of 2^32 */
static int files[3];
static uint32_t addresses[3];
static unsigned long long lost;
static uint64_t dice;

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint32_t roll(void) { /* xorshift64* */
    dice ^= dice >> 12;
    dice ^= dice << 25;
    dice ^= dice >> 27;
    return (uint32_t)((dice * 0x2545F4914F6CDD1DULL) >> 32);
}

static void take(int from, const unsigned char *packet, int size) {
    uint32_t goal;
    int to = -1;
    if (size < 20 || packet[0] >> 4 != 4) return;
    memcpy(&goal, packet + 16, 4);
    for (int host = 0; host < 3; host++)
        if (addresses[host] == goal) to = host;
    if (to < 0 || (to != from + 1 && to != from - 1)) return; /* nobody, or no neighbour */
    int is_down = to < from, link = is_down ? to : from;
    struct direction *way = &directions[link][is_down];
    if (packet[9] == UDP) {
        way->packets++;
        way->octets += (unsigned)size;
    }
    if (roll() < loss[link] || way->tail - way->head == SLOTS) {
        lost++;
        return;
    }
    if (delay[link] == 0) {
        if (write(files[to], packet, (size_t)size) < 0) lost++;
        return;
    }
    struct waiting *slot = &way->queue[way->tail % SLOTS];
    slot->octets = malloc((size_t)size);
    if (slot->octets == NULL) exit(3);
    memcpy(slot->octets, packet, (size_t)size);
    slot->size = size;
    slot->due = now() + delay[link];
    way->tail++;
}

/* Deliver what is due, and return when the next packet is. */
static uint64_t deliver(void) {
    uint64_t next = UINT64_MAX;
    for (int link = 0; link < 2; link++)
        for (int is_down = 0; is_down < 2; is_down++) {
            struct direction *way = &directions[link][is_down];
            int to = is_down ? link : link + 1;
            uint64_t at = now();
            while (way->head != way->tail && way->queue[way->head % SLOTS].due <= at) {
                struct waiting *slot = &way->queue[way->head % SLOTS];
                if (write(files[to], slot->octets, (size_t)slot->size) < 0) lost++;
                free(slot->octets);
                way->head++;
            }
            if (way->head != way->tail && way->queue[way->head % SLOTS].due < next)
                next = way->queue[way->head % SLOTS].due;
        }
    return next;
}

static void tell(void) {
    for (int link = 0; link < 2; link++)
        for (int is_down = 0; is_down < 2; is_down++)
            printf("%llu %llu ", directions[link][is_down].packets, directions[link][is_down].octets);
    printf("%llu\n", lost);
    fflush(stdout);
}

int main(int count, char **words) {
    static unsigned char packet[MAX_PACKET];
    char line[64];
    if (count != 12) return 2;
    dice = strtoull(words[1], NULL, 10) * 2654435761u + 88172645463325252ULL;
    for (int link = 0; link < 2; link++) {
        delay[link] = strtoull(words[2 + 2 * link], NULL, 10) * 1000;
        loss[link] = strtoull(words[3 + 2 * link], NULL, 10) * 4294967296ULL / 1000000;
        for (int is_down = 0; is_down < 2; is_down++)
            if ((directions[link][is_down].queue = calloc(SLOTS, sizeof(struct waiting))) == NULL) return 3;
    }
    for (int host = 0; host < 3; host++) {
        files[host] = atoi(words[6 + 2 * host]);
        if (inet_pton(AF_INET, words[7 + 2 * host], &addresses[host]) != 1) return 2;
    }
    for (;;) {
        uint64_t due = deliver(), at = now(), wait = due > at ? due - at : 0;
        struct timespec left = {(time_t)(wait / 1000000000u), (long)(wait % 1000000000u)};
        struct pollfd polled[4] = {
            {files[0], POLLIN, 0}, {files[1], POLLIN, 0}, {files[2], POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
        if (ppoll(polled, 4, due == UINT64_MAX ? NULL : &left, NULL) < 0) {
            if (errno == EINTR) continue;
            return 1;
        }
        if (polled[3].revents) {
            ssize_t read_now = read(STDIN_FILENO, line, sizeof line);
            if (read_now <= 0) return 0;
            for (ssize_t at_octet = 0; at_octet < read_now; at_octet++)
                if (line[at_octet] == '\n') tell();
        }
        for (int host = 0; host < 3; host++)
            for (int turn = 0; polled[host].revents & POLLIN && turn < BATCH; turn++) {
                ssize_t size = read(files[host], packet, sizeof packet);
                if (size <= 0) break;
                take(host, packet, (int)size);
            }
    }
}
