#include "backends/openvino/plan.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace lathe::openvino {

std::vector<Shape> with_batch(std::vector<Shape> shapes, std::int64_t batch) {
    for (auto& shape : shapes)
        shape.at(0) = batch;
    return shapes;
}

std::vector<Round> cut_batch(const std::vector<PartSpec>& parts, std::int64_t batch) {
    std::vector<Round> rounds;
    std::vector<std::size_t> streamed; // large pieces first
    std::size_t single = parts.size();
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (parts[i].streams > 1 || parts[i].batch() > 1) {
            streamed.push_back(i);
        } else if (parts[i].batch() == 1) {
            single = i;
        }
    }
    std::sort(streamed.begin(), streamed.end(),
              [&](std::size_t a, std::size_t b) { return parts[a].batch() > parts[b].batch(); });
    std::int64_t done = 0;
    for (const std::size_t index : streamed) {
        const std::int64_t piece = parts[index].batch();
        const auto streams = static_cast<std::int64_t>(parts[index].streams);
        if (piece <= 0) continue;
        std::int64_t pieces = (batch - done) / (piece * streams) * streams;
        // On many cores a round of single samples that fills over half of the streams beats running them one by one.
        if (piece == 1 && (batch - done) % streams > streams / 2) pieces = batch - done;
        if (pieces == 0) continue;
        Round round{index, {}};
        for (; pieces > 0; --pieces, done += piece)
            round.pieces.push_back({done, piece});
        rounds.push_back(std::move(round));
    }
    for (; done < batch && single < parts.size(); ++done)
        rounds.push_back({single, {{done, 1}}});
    if (done < batch) return {};
    return rounds;
}

std::vector<PartSpec> split_parts(const std::vector<Shape>& shapes, const std::vector<std::int64_t>& sizes,
                                  std::size_t threads, std::int64_t min, std::int64_t max) {
    std::vector<PartSpec> all{{with_batch(shapes, 1), 1}};
    for (const std::int64_t size : sizes)
        all.push_back({with_batch(shapes, size), threads});
    // Two threads never leave a remainder for streams of single samples; more threads do.
    if (threads > 2) all.push_back({with_batch(shapes, 1), threads});
    std::set<std::size_t> needed;
    constexpr std::int64_t tried = 4096;
    for (std::int64_t batch = min; batch <= max && batch - min < tried; ++batch) {
        for (const auto& round : cut_batch(all, batch))
            needed.insert(round.part);
    }
    if (max - min >= tried) {
        for (std::size_t i = 0; i < all.size(); ++i)
            needed.insert(i);
    }
    std::vector<PartSpec> parts;
    for (const std::size_t index : needed)
        parts.push_back(all[index]);
    return parts;
}

} // namespace lathe::openvino
