// A load generator for HTTP servers, so light that it is not the limit: requests that were written beforehand are sent
// over connections that are kept, each as soon as the answer to the one before has come (a closed loop). Without
// libraries, so that a machine with a compiler alone can build it:
//
//     c++ -std=c++20 -O2 -pthread http_load.cpp -o http_load
//     http_load PORT CONNECTIONS THREADS WARM_UP_SECONDS SECONDS REQUEST...
//
// REQUEST is a file with one whole HTTP/1.1 request, head and body. Connections begin at different ones and take them
// in turns. REQUEST=EXPECTED also holds each answer against the file EXPECTED: the float32 values that end the answer's
// body (Triton's binary outputs) differ by at most 2 % of the largest expected one. An answer that does not is counted
// as wrong. Prints one JSON object; exit code 1 where an answer was wrong, refused or missing.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr double tolerance = 0.02;
constexpr auto patience = std::chrono::seconds(10); // for the last answers

struct Request {
    std::string bytes;
    std::vector<float> expected; ///< empty: any answer will do
};

struct Counts {
    std::size_t answered = 0; ///< as they should be, within the time that is measured
    std::size_t all = 0;
    std::size_t refused = 0;
    std::size_t wrong = 0;
    std::string first_refusal;
    std::vector<std::uint32_t> microseconds{}; ///< of the answered
};

/// Set by the thread that keeps the time.
struct Phase {
    std::atomic<bool> measured = false;
    std::atomic<bool> over = false;
};

[[noreturn]] void give_up(const std::string& what) {
    std::cerr << "http_load: " << what << "\n";
    std::exit(2);
}

std::string read_file(const std::string& name) {
    std::ifstream file(name, std::ios::binary);
    if (!file) give_up("cannot read " + name);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::size_t number(std::string_view text, const char* what) {
    std::size_t value = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed != std::errc() || end != text.data() + text.size())
        give_up(std::string(what) + " is no whole number: " + std::string(text));
    return value;
}

double seconds(const char* text, const char* what) {
    char* end = nullptr;
    const double value = std::strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0)) give_up(std::string(what) + " is no number of seconds: " + text);
    return value;
}

/// One connection: a request is under way from the time that it is begun until its answer was read.
class Connection {
public:
    Connection(std::uint16_t port, std::size_t number, std::vector<Request>& requests, Counts& counts, Phase& phase)
        : requests_(requests), counts_(counts), phase_(phase), next_(number) {
        socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
        if (socket_ < 0) give_up("no socket: " + std::string(std::strerror(errno)));
        const int yes = 1;
        ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
            give_up("no connection to port " + std::to_string(port) + ": " + std::strerror(errno));
        ::fcntl(socket_, F_SETFL, ::fcntl(socket_, F_GETFL) | O_NONBLOCK);
    }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection() { ::close(socket_); }

    int socket() const { return socket_; }
    bool busy() const { return current_ != nullptr; }

    void begin() {
        current_ = &requests_[next_++ % requests_.size()];
        sent_ = 0;
        answer_.clear();
        wanted_.reset();
        start_ = Clock::now();
        send();
    }
    /// What the socket is waited for.
    std::uint32_t events() const {
        return current_ != nullptr && sent_ < current_->bytes.size() ? std::uint32_t{EPOLLIN} | EPOLLOUT : EPOLLIN;
    }
    void proceed(std::uint32_t events) {
        if ((events & EPOLLOUT) != 0) send();
        if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) receive();
    }

private:
    void send() {
        while (current_ != nullptr && sent_ < current_->bytes.size()) {
            const ssize_t count =
                ::send(socket_, current_->bytes.data() + sent_, current_->bytes.size() - sent_, MSG_NOSIGNAL);
            if (count < 0) {
                if (errno == EAGAIN || errno == EWOULDBLOCK) return;
                give_up(std::string("a connection broke while a request was sent: ") + std::strerror(errno));
            }
            sent_ += static_cast<std::size_t>(count);
        }
    }
    void receive() {
        constexpr std::size_t most = std::size_t{1} << 18;
        thread_local std::vector<char> piece(most);
        for (;;) {
            const ssize_t count = ::recv(socket_, piece.data(), most, 0);
            answer_.append(piece.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
            if (count == 0) give_up("the server closed a connection");
            if (count < 0) {
                if (errno == EAGAIN || errno == EWOULDBLOCK) return;
                give_up(std::string("a connection broke before the answer: ") + std::strerror(errno));
            }
            if (!wanted_) find_length();
            if (wanted_ && answer_.size() >= *wanted_) return take();
            if (static_cast<std::size_t>(count) < most) return;
        }
    }
    void find_length() {
        const std::size_t head = answer_.find("\r\n\r\n");
        if (head == std::string::npos) return;
        std::string lower = answer_.substr(0, head);
        std::ranges::transform(lower, lower.begin(),
                               [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        constexpr std::string_view field = "\r\ncontent-length:";
        const std::size_t at = lower.find(field);
        std::size_t body = 0;
        if (at != std::string::npos) {
            const std::size_t first = lower.find_first_not_of(' ', at + field.size());
            const std::size_t end = std::min(lower.find('\r', first), lower.size());
            body = number(std::string_view(lower).substr(first, end - first), "Content-Length");
        }
        body_ = head + 4;
        wanted_ = body_ + body;
    }
    void take() {
        ++counts_.all;
        if (!answer_.starts_with("HTTP/1.1 200")) {
            ++counts_.refused;
            if (counts_.first_refusal.empty()) counts_.first_refusal = answer_.substr(0, 600);
        } else if (!is_right()) {
            ++counts_.wrong;
        } else if (phase_.measured && !phase_.over) {
            ++counts_.answered;
            const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start_).count();
            counts_.microseconds.push_back(static_cast<std::uint32_t>(took));
        }
        current_ = nullptr;
        if (!phase_.over) begin();
    }
    bool is_right() const {
        const std::vector<float>& expected = current_->expected;
        if (expected.empty()) return true;
        const std::size_t bytes = expected.size() * sizeof(float);
        if (answer_.size() - body_ < bytes) return false;
        std::vector<float> found(expected.size());
        std::memcpy(found.data(), answer_.data() + answer_.size() - bytes, bytes);
        float most = 0;
        float worst = 0;
        for (std::size_t i = 0; i < expected.size(); ++i) {
            most = std::max(most, std::abs(expected[i]));
            const float difference = std::abs(found[i] - expected[i]);
            if (!(difference <= worst)) worst = difference; // NaN stays
        }
        return static_cast<double>(worst) <= tolerance * static_cast<double>(most);
    }

    std::vector<Request>& requests_;
    Counts& counts_;
    Phase& phase_;
    std::size_t next_ = 0;
    int socket_ = -1;
    const Request* current_ = nullptr;
    std::size_t sent_ = 0;
    std::string answer_;
    std::size_t body_ = 0;
    std::optional<std::size_t> wanted_; ///< bytes of the whole answer, once its head was read
    Clock::time_point start_;
};

void serve(std::vector<std::unique_ptr<Connection>>& connections, Phase& phase) {
    const int queue = ::epoll_create1(0);
    if (queue < 0) give_up(std::string("no epoll: ") + std::strerror(errno));
    const auto watch = [&](Connection& connection, int change) {
        epoll_event event{};
        event.events = connection.events();
        event.data.ptr = &connection;
        if (::epoll_ctl(queue, change, connection.socket(), &event) != 0)
            give_up(std::string("epoll_ctl: ") + std::strerror(errno));
    };
    for (auto& connection : connections) {
        connection->begin();
        watch(*connection, EPOLL_CTL_ADD);
    }
    std::optional<Clock::time_point> end;
    std::vector<epoll_event> events(256);
    while (std::ranges::any_of(connections, [](const auto& each) { return each->busy(); })) {
        if (phase.over && !end) end = Clock::now() + patience;
        if (end && Clock::now() > *end) break;
        const int count = ::epoll_wait(queue, events.data(), static_cast<int>(events.size()), 100);
        for (int i = 0; i < count; ++i) {
            const epoll_event& event = events[static_cast<std::size_t>(i)];
            Connection& connection = *static_cast<Connection*>(event.data.ptr);
            const std::uint32_t before = connection.events();
            connection.proceed(event.events);
            // The next request may not fit into the socket at once, as the last did.
            if (connection.events() != before || connection.events() != EPOLLIN) watch(connection, EPOLL_CTL_MOD);
        }
    }
    ::close(queue);
}

std::string json_quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += static_cast<unsigned char>(c) < 32 || static_cast<unsigned char>(c) > 126 ? ' ' : c;
    }
    return out + "\"";
}

double quantile(const std::vector<std::uint32_t>& sorted, double share) {
    if (sorted.empty()) return 0;
    const auto last = static_cast<double>(sorted.size() - 1);
    return static_cast<double>(sorted[static_cast<std::size_t>(std::llround(share * last))]);
}

} // namespace

int main(int argc, char** argv) {
    if (argc < 7) give_up("usage: http_load PORT CONNECTIONS THREADS WARM_UP_SECONDS SECONDS REQUEST[=EXPECTED]...");
    const auto port = static_cast<std::uint16_t>(number(argv[1], "PORT"));
    const std::size_t count = number(argv[2], "CONNECTIONS");
    const std::size_t threads = std::min(number(argv[3], "THREADS"), count);
    const double warm_up = seconds(argv[4], "WARM_UP_SECONDS");
    const double measured = seconds(argv[5], "SECONDS");
    if (count < 1 || threads < 1) give_up("one connection and one thread are needed at least");
    std::vector<Request> requests;
    for (int i = 6; i < argc; ++i) {
        const std::string name = argv[i];
        const std::size_t cut = name.find('=');
        Request request{read_file(name.substr(0, cut)), {}};
        if (cut != std::string::npos) {
            const std::string bytes = read_file(name.substr(cut + 1));
            request.expected.resize(bytes.size() / sizeof(float));
            std::memcpy(request.expected.data(), bytes.data(), request.expected.size() * sizeof(float));
        }
        if (request.bytes.empty()) give_up("the request is empty: " + name);
        requests.push_back(std::move(request));
    }

    Phase phase;
    std::vector<Counts> counts(threads);
    std::vector<std::vector<std::unique_ptr<Connection>>> connections(threads);
    for (std::size_t i = 0; i < count; ++i)
        connections[i % threads].push_back(std::make_unique<Connection>(port, i, requests, counts[i % threads], phase));
    double took = 0;
    {
        std::vector<std::jthread> running;
        for (std::size_t i = 0; i < threads; ++i)
            running.emplace_back([&, i] { serve(connections[i], phase); });
        std::this_thread::sleep_for(std::chrono::duration<double>(warm_up));
        const auto begin = Clock::now();
        phase.measured = true;
        std::this_thread::sleep_for(std::chrono::duration<double>(measured));
        phase.over = true;
        took = std::chrono::duration<double>(Clock::now() - begin).count();
    }
    Counts sum;
    std::size_t missing = 0;
    for (std::size_t i = 0; i < threads; ++i) {
        sum.answered += counts[i].answered;
        sum.all += counts[i].all;
        sum.refused += counts[i].refused;
        sum.wrong += counts[i].wrong;
        if (sum.first_refusal.empty()) sum.first_refusal = counts[i].first_refusal;
        sum.microseconds.insert(sum.microseconds.end(), counts[i].microseconds.begin(), counts[i].microseconds.end());
        for (const auto& connection : connections[i])
            missing += connection->busy() ? 1 : 0;
    }
    std::ranges::sort(sum.microseconds);
    std::printf(
        "{\"connections\": %zu, \"threads\": %zu, \"seconds\": %.3f, \"answered\": %zu, \"requests_per_second\": "
        "%.1f, \"all\": %zu, \"refused\": %zu, \"wrong\": %zu, \"missing\": %zu, \"p50_us\": %.0f, \"p90_us\": "
        "%.0f, \"p99_us\": %.0f, \"first_refusal\": %s}\n",
        count, threads, took, sum.answered, static_cast<double>(sum.answered) / took, sum.all, sum.refused, sum.wrong,
        missing, quantile(sum.microseconds, 0.5), quantile(sum.microseconds, 0.9), quantile(sum.microseconds, 0.99),
        json_quoted(sum.first_refusal).c_str());
    return sum.refused + sum.wrong + missing > 0 ? 1 : 0;
}
