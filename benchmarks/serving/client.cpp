// An open-loop HTTP client: requests leave by the clock, whether or not answers have come.
//
//   client PORT RATE CONNECTIONS SECONDS < REQUESTS
//
// REQUESTS is a series of requests, each after a line with its length in bytes; they are sent in
// turn. "@newword@@" in a request becomes a word that the server has never seen. A connection has
// at most one request under way. A request that finds no idle connection waits, and its latency
// counts from when it should have left. The result is printed as JSON, times in milliseconds:
//
//   latency   from when the request should have left to the end of its answer (200 only)
//   service   from when it left (200 only)
//   late      from when it should have left to when it left, if a connection was idle at that time:
//             the part of the latency that is the client's own fault

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::string_view new_word = "@newword@@";
constexpr double patience = 10;  // seconds for the last answers
constexpr double spin = 1e-4;    // shorter waits are spent looking for answers, without a timer

double now() {
    using namespace std::chrono;
    return duration<double>(steady_clock::now().time_since_epoch()).count();
}

struct Request {
    std::string bytes;
    std::vector<std::size_t> new_words;  // where they begin
};

struct Connection {
    int fd = -1;
    std::string in, out;  // what was received, and what could not be sent yet
    bool is_asked = false;
    double due = 0, sent = 0;
};

std::vector<Request> read_requests() {
    std::vector<Request> requests;
    for (std::string line; std::getline(std::cin, line);) {
        Request request{std::string(std::stoul(line), '\0'), {}};
        std::cin.read(request.bytes.data(), static_cast<std::streamsize>(request.bytes.size()));
        std::size_t at = 0;
        while ((at = request.bytes.find(new_word, at)) != std::string::npos) {
            request.new_words.push_back(at);
            at += new_word.size();
        }
        requests.push_back(std::move(request));
    }
    if (requests.empty()) throw std::runtime_error("no requests");
    return requests;
}

class Load {
  public:
    Load(int port, double rate, int n_connections, std::vector<Request> requests)
        : port_(port), rate_(rate), requests_(std::move(requests)), connections_(n_connections) {
        poll_ = epoll_create1(0);
    }

    void run(double seconds) {
        for (auto& each : connections_) open(each);
        double begin = now(), end = begin + seconds;
        std::vector<epoll_event> events(connections_.size());
        for (double t = begin; t < end || (n_open_ > 0 && t < end + patience); t = now()) {
            double next = begin + static_cast<double>(n_sent_ + 1) / rate_;
            while (next <= t && next <= end && t < end && !idle_.empty()) {
                Connection& each = *idle_.front();
                idle_.pop_front();
                ask(each, next, t);
                next = begin + static_cast<double>(n_sent_ + 1) / rate_;
            }
            double wait = idle_.empty() || t >= end ? 0.1 : std::clamp(next - t, 0.0, 0.1);
            if (wait < spin) wait = 0;
            timespec timeout{0, static_cast<long>(1e9 * wait)};
            int n = epoll_pwait2(poll_, events.data(), static_cast<int>(events.size()), &timeout,
                                 nullptr);
            for (int i = 0; i < n; ++i) read(*static_cast<Connection*>(events[i].data.ptr));
        }
        broken_["unanswered"] += n_open_;
    }

    void print() {
        std::printf("{\"sent\": %ld, ", n_sent_);
        print_counts("statuses", statuses_);
        print_counts("broken", broken_);
        print_times("latency", latencies_);
        print_times("service", services_);
        print_times("late", late_);
        rusage used{};
        getrusage(RUSAGE_SELF, &used);
        double cpu = static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                     1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
        std::printf("\"cpu\": %.3f}\n", cpu);
    }

  private:
    void open(Connection& each) {
        each = Connection{};
        each.fd = socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(static_cast<std::uint16_t>(port_));
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (connect(each.fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
            close(each.fd);
            each.fd = -1;
            ++broken_["connect"];
            return;
        }
        int on = 1;
        setsockopt(each.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        epoll_event event{EPOLLIN | EPOLLOUT | EPOLLET, {.ptr = &each}};
        epoll_ctl(poll_, EPOLL_CTL_ADD, each.fd, &event);
        each.sent = now();
        idle_.push_back(&each);
    }

    // Sends the request that was due at a time; the connection was idle since `sent`.
    void ask(Connection& each, double due, double t) {
        if (each.sent <= due) late_.push_back(static_cast<float>(t - due));
        Request& request = requests_[n_sent_ % requests_.size()];
        for (std::size_t at : request.new_words) {
            char word[16];
            std::snprintf(word, sizeof word, "new%07ld", n_sent_ % 10'000'000);
            std::memcpy(request.bytes.data() + at, word, new_word.size());
        }
        ++n_sent_;
        ++n_open_;
        each.is_asked = true;
        each.due = due;
        each.sent = t;
        each.out = request.bytes;
        flush(each);
    }

    void flush(Connection& each) {
        if (each.out.empty()) return;
        ssize_t n = send(each.fd, each.out.data(), each.out.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0) each.out.erase(0, static_cast<std::size_t>(n));  // an error is seen by read()
    }

    void read(Connection& each) {
        flush(each);
        char buffer[1 << 16];
        while (each.fd >= 0) {
            ssize_t n = recv(each.fd, buffer, sizeof buffer, MSG_DONTWAIT);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
            if (n <= 0) return lose(each, n == 0 ? "lost" : std::strerror(errno));
            each.in.append(buffer, static_cast<std::size_t>(n));
            take_answer(each);
            if (!each.is_asked) return;  // nothing more can come
        }
    }

    void take_answer(Connection& each) {
        std::size_t end = each.in.find("\r\n\r\n");
        if (end == std::string::npos) return;
        std::string head = each.in.substr(0, end);
        std::transform(head.begin(), head.end(), head.begin(),
                       [](char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c + 32) : c; });
        std::size_t at = head.find("content-length:");
        if (at == std::string::npos) return lose(each, "no length");
        std::size_t size = std::strtoul(head.c_str() + at + 15, nullptr, 10);
        if (each.in.size() < end + 4 + size) return;
        double t = now();
        std::string status = head.substr(9, 3);
        ++statuses_[status];
        if (status == "200") {
            latencies_.push_back(static_cast<float>(t - each.due));
            services_.push_back(static_cast<float>(t - each.sent));
        }
        --n_open_;
        each.is_asked = false;
        each.in.clear();
        each.sent = t;
        if (head.find("connection: close") != std::string::npos) {
            lose(each, "");
        } else {
            idle_.push_back(&each);
        }
    }

    // Opens a connection anew; the request that was under way has failed.
    void lose(Connection& each, const std::string& why) {
        if (each.is_asked) {
            ++broken_[why];
            --n_open_;
        }
        auto place = std::find(idle_.begin(), idle_.end(), &each);
        if (place != idle_.end()) idle_.erase(place);
        close(each.fd);
        open(each);
    }

    static void print_counts(const char* name, const std::map<std::string, long>& counts) {
        std::printf("\"%s\": {", name);
        const char* comma = "";
        for (const auto& [key, n] : counts) {
            if (n == 0) continue;
            std::printf("%s\"%s\": %ld", comma, key.c_str(), n);
            comma = ", ";
        }
        std::printf("}, ");
    }

    static void print_times(const char* name, std::vector<float>& times) {
        std::sort(times.begin(), times.end());
        auto at = [&](double q) {
            if (times.empty()) return 0.0;
            auto i = static_cast<std::size_t>(q * static_cast<double>(times.size()));
            return 1e3 * times[std::min(i, times.size() - 1)];
        };
        std::printf("\"%s\": [%.4f, %.4f, %.4f, %.4f], ", name, at(0.5), at(0.99), at(0.999),
                    at(1.0));
    }

    int port_;
    double rate_;
    std::vector<Request> requests_;
    std::vector<Connection> connections_;
    std::deque<Connection*> idle_;
    int poll_ = -1;
    long n_sent_ = 0;
    long n_open_ = 0;  // requests under way
    std::map<std::string, long> statuses_, broken_;
    std::vector<float> latencies_, services_, late_;  // seconds
};

}  // namespace

int main(int n, char** arguments) {
    if (n != 5) {
        std::fputs("usage: client PORT RATE CONNECTIONS SECONDS < REQUESTS\n", stderr);
        return 2;
    }
    prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds; 50,000 by default
    Load load(std::atoi(arguments[1]), std::atof(arguments[2]), std::atoi(arguments[3]),
              read_requests());
    load.run(std::atof(arguments[4]));
    load.print();
}
