#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "bench/length_mix.hpp"
#include "data/lengths.hpp"
#include "support/clock.hpp"

namespace lathe {

namespace {

void sleep_milliseconds(double milliseconds) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
}

Error bad_padding(std::string_view text) {
    return {ErrorCode::invalid_argument, "\"" + std::string(text) + "\" says no lengths to fill up to", "--buckets",
            "write own, longest, or lengths such as 16,32,64"};
}

/// A longer row: what there is, and the filler on one side of it.
void fill_row(std::span<std::byte> row, std::span<const std::byte> from, DataType type, std::int64_t filler,
              PaddingSide side) {
    const bool in_front = side == PaddingSide::in_front;
    const std::size_t width = byte_size(type, 1);
    const std::size_t more = row.size() - from.size();
    std::ranges::copy(from, row.subspan(in_front ? more : 0).begin());
    const std::size_t first = in_front ? 0 : from.size();
    for (std::size_t at = first; at < first + more; at += width) {
        if (type == DataType::int64) {
            std::memcpy(&row[at], &filler, width);
        } else {
            const auto narrow = static_cast<std::int32_t>(filler);
            std::memcpy(&row[at], &narrow, width);
        }
    }
}

/// Every request through every list that has not failed.
Result<void> run_pass(std::span<RequestList* const> lists, std::size_t requests, const MixTurns& options,
                      std::vector<MixTimes>& times, Progress& progress) {
    const auto sleep = options.sleep_ms ? options.sleep_ms : sleep_milliseconds;
    std::vector<double> sums(lists.size(), 0);
    for (std::size_t first = 0; first < requests; first += options.requests_a_turn) {
        for (std::size_t i = 0; i < lists.size(); ++i) {
            if (times[i].failure) continue;
            LATHE_CHECK(progress.check());
            sleep(options.pause_ms);
            auto calls = lists[i]->run(first, std::min(options.requests_a_turn, requests - first), progress);
            if (!calls) {
                if (calls.error().code == ErrorCode::cancelled) return std::move(calls).error();
                times[i].failure = std::move(calls).error();
                continue;
            }
            times[i].call_ns.insert(times[i].call_ns.end(), calls->begin(), calls->end());
            times[i].turn_ns.push_back(std::accumulate(calls->begin(), calls->end(), 0.0));
            sums[i] += times[i].turn_ns.back();
        }
        progress.advance();
    }
    for (std::size_t i = 0; i < lists.size(); ++i)
        if (!times[i].failure) times[i].pass_ns.push_back(sums[i]);
    return {};
}

} // namespace

Result<Padding> parse_padding(std::string_view text) {
    if (text == "own") return Padding{Padding::Kind::own};
    if (text == "longest") return Padding{Padding::Kind::longest};
    Padding padding{Padding::Kind::buckets};
    for (std::string_view rest = text;;) {
        const std::size_t end = std::min(rest.find(','), rest.size());
        std::size_t length = 0;
        const auto [stop, code] = std::from_chars(rest.data(), rest.data() + end, length);
        if (code != std::errc{} || stop != rest.data() + end || length == 0) return bad_padding(text);
        padding.buckets.push_back(length);
        if (end == rest.size()) break;
        rest.remove_prefix(end + 1);
    }
    std::ranges::sort(padding.buckets);
    padding.buckets.erase(std::unique(padding.buckets.begin(), padding.buckets.end()), padding.buckets.end());
    return padding;
}

Result<std::vector<std::size_t>> padded_lengths(const Padding& padding, std::span<const std::size_t> lengths) {
    std::vector<std::size_t> padded(lengths.begin(), lengths.end());
    if (padding.kind == Padding::Kind::own || lengths.empty()) return padded;
    const std::size_t longest = *std::ranges::max_element(lengths);
    if (padding.kind == Padding::Kind::longest) return std::vector<std::size_t>(lengths.size(), longest);
    for (std::size_t& length : padded) {
        length = bucket_of(length, padding.buckets);
        if (length > 0) continue;
        return Error{ErrorCode::invalid_argument,
                     "the longest request has " + std::to_string(longest) + " tokens, the largest bucket " +
                         std::to_string(padding.buckets.back()),
                     "--buckets", "add " + std::to_string(longest) + ", or a larger one"};
    }
    return padded;
}

Requests fill_up(const Requests& requests, std::span<const std::size_t> lengths, std::int64_t pad_id,
                 PaddingSide side) {
    Requests filled;
    for (std::size_t i = 0; i < requests.size(); ++i) {
        std::vector<HostTensor>& tensors = filled.emplace_back();
        for (const HostTensor& from : requests[i]) {
            Shape shape = from.shape;
            shape[1] = static_cast<std::int64_t>(lengths[i]);
            HostTensor& to = tensors.emplace_back(from.name, from.type, shape);
            const std::int64_t filler = from.name == "input_ids" ? pad_id : 0;
            const auto rows = static_cast<std::size_t>(shape[0]);
            const std::size_t wide = to.bytes.size() / rows;
            const std::size_t narrow = from.bytes.size() / rows;
            for (std::size_t row = 0; row < rows; ++row) {
                fill_row(std::span(to.bytes).subspan(row * wide, wide),
                         std::span(from.bytes).subspan(row * narrow, narrow), from.type, filler, side);
            }
        }
    }
    return filled;
}

Result<std::vector<MixTimes>> run_mix(std::span<RequestList* const> lists, std::size_t requests,
                                      const MixTurns& options, Progress& progress) {
    const auto now = options.now ? options.now : steady_seconds;
    const double allowed = options.time_limit_s * static_cast<double>(lists.size());
    std::vector<MixTimes> times(lists.size());
    const double start = now();
    double began = start;
    std::size_t pass = 0;
    do {
        began = now();
        const std::size_t turns = (requests + options.requests_a_turn - 1) / options.requests_a_turn;
        progress.begin("length mix, pass " + std::to_string(++pass), turns);
        LATHE_CHECK(run_pass(lists, requests, options, times, progress));
        const bool over = std::ranges::all_of(times, [](const MixTimes& each) { return each.failure.has_value(); });
        if (over) break;
    } while (2 * now() - began - start <= allowed);
    progress.end();
    return times;
}

} // namespace lathe
