// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * A service with a client, for the tests of sweeps. Threads serve requests of a Unix socket,
 * each with a fixed amount of work. The client sends them at a fixed rate, whether or not
 * answers come, and measures each answer from the time at which its request was due: a service
 * that falls behind cannot hide it.
 *
 *     c++ -std=c++17 -O2 -pthread -o service tests/programs/service.cpp
 *     ./service THREADS RATE REQUESTS
 *
 * It prints `p50=2.41 ms p99=2.63 ms rate=200.1/s`.
 */
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration;

/// Steps of work for one request: some 2 ms.
constexpr std::uint32_t work_steps = 1'600'000;

/// A number of a request; the answer returns it, with the result of the work.
struct Message {
    std::uint32_t number;
    std::uint32_t result;
};

[[noreturn]] void fail(const char *call)
{
    throw std::system_error(errno, std::generic_category(), call);
}

void send_message(int socket, const Message &message)
{
    if (send(socket, &message, sizeof message, 0) != sizeof message)
        fail("send");
}

/// Returns false at the end of the requests.
bool receive_message(int socket, Message &message)
{
    const ssize_t length = recv(socket, &message, sizeof message, 0);
    if (length < 0)
        fail("recv");
    return length == sizeof message;
}

/// A sequence that the compiler cannot shorten (xorshift).
std::uint32_t work(std::uint32_t state)
{
    state |= 1;
    for (std::uint32_t step = 0; step < work_steps; step++) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
    }
    return state;
}

/// One of the threads of the service. They share the socket; each message goes to one of them.
void serve(int socket)
{
    for (Message message; receive_message(socket, message);) {
        message.result = work(message.number);
        send_message(socket, message);
    }
}

double percentile(const std::vector<double> &sorted, double part)
{
    return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1))];
}

void run(unsigned threads, double rate, std::uint32_t requests)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0)
        fail("socketpair");
    const auto [client, service] = ends;

    std::vector<std::thread> servers;
    for (unsigned thread = 0; thread < threads; thread++)
        servers.emplace_back(serve, service);

    const auto begin = Clock::now();
    const auto due = [=](std::uint32_t number) {
        return begin + std::chrono::duration_cast<Clock::duration>(duration<double>(number / rate));
    };
    std::thread sender([&] {
        for (std::uint32_t number = 0; number < requests; number++) {
            std::this_thread::sleep_until(due(number));
            send_message(client, {number, 0});
        }
    });

    std::vector<double> latencies_ms;
    for (Message answer; latencies_ms.size() < requests && receive_message(client, answer);)
        latencies_ms.push_back(
            duration<double, std::milli>(Clock::now() - due(answer.number)).count());
    const double elapsed_s = duration<double>(Clock::now() - begin).count();

    sender.join();
    shutdown(client, SHUT_WR);
    for (auto &server : servers)
        server.join();

    std::sort(latencies_ms.begin(), latencies_ms.end());
    std::printf("p50=%.2f ms p99=%.2f ms rate=%.1f/s\n", percentile(latencies_ms, 0.5),
                percentile(latencies_ms, 0.99), requests / elapsed_s);
}

} // namespace

int main(int count, char **words)
{
    if (count != 4) {
        std::fprintf(stderr, "usage: %s THREADS RATE REQUESTS\n", words[0]);
        return 2;
    }
    try {
        run(static_cast<unsigned>(std::stoul(words[1])), std::stod(words[2]),
            static_cast<std::uint32_t>(std::stoul(words[3])));
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s: %s\n", words[0], error.what());
        return 1;
    }
}
