// Options of what kernels/lines.cu does. Costs order them: more threads for a line where lines alone fill no GPU.
#include <algorithm>

#include "backends/cuda/kernels/lines.hpp"
#include "backends/cuda/tactics/own_options.hpp"

namespace lathe::cuda {

using namespace kernels;

namespace {

/// Lines of as many threads as still leave each some work come first.
double threads_cost(const IndexedParams& p, int threads, const Device& device) {
    std::int64_t lines = 1;
    for (int d = 0; d < p.in[0].rank; ++d)
        if (d != p.axis) lines *= p.in[0].dims[d];
    const double size = static_cast<double>(p.in[0].dims[p.axis]);
    const double full = 1024.0 * std::max(1, device.multiprocessors);
    const double rounds = std::max(1.0, static_cast<double>(lines) * threads / full);
    return rounds * (1 + size / threads);
}

std::string with(const char* name, int threads) { return std::string(name) + "/t" + std::to_string(threads); }

} // namespace

std::string indexed_options(const FusedOp& op, const Plan& plan, const Device& device, std::vector<Option>& options) {
    const IndexedParams p = indexed_params(op, plan);
    const auto set = indexed_setter(op, plan);
    const bool waits = waits_on(device);
    const auto add_lines = [&](const char* name, int threads, auto launch) {
        options.push_back(
            make_option(op, waits, with(name, threads), threads_cost(p, threads, device), p, set,
                        [threads, launch](const IndexedParams& q, cudaStream_t stream, bool programmatic) {
                            return launch(q, threads, stream, programmatic);
                        }));
    };
    for (const int threads : {1, 32, 256, 1024}) {
        if (top_k_takes(p, threads) &&
            top_k_shared_bytes(p, threads) <= static_cast<std::int64_t>(device.shared_per_block))
            add_lines("top_k", threads, launch_top_k);
        if (arg_extreme_takes(p, threads)) add_lines("arg_extreme", threads, launch_arg_extreme);
        if (cumulate_takes(p, threads)) add_lines("cumulate", threads, launch_cumulate);
    }
    for (const bool staged : {true, false}) {
        for (const int channels : {1, 2, 4, 8, 16, 32}) {
            const GridTile tile{channels, staged};
            if (!grid_sample_takes(p, tile)) continue;
            const std::int64_t shared = grid_sample_shared_bytes(p, tile);
            if (shared > static_cast<std::int64_t>(device.shared_per_block)) continue;
            // Two blocks a multiprocessor at least hide each other's loads.
            const bool apart = 2 * shared > static_cast<std::int64_t>(device.shared_per_block);
            const double cost = (staged ? 1 : 2) + 1.0 / channels + (apart ? 2 : 0);
            const std::string id = std::string("grid_sample/") + (staged ? "s" : "d") + std::to_string(channels);
            options.push_back(make_option(op, waits, id, cost, p, set,
                                          [tile](const IndexedParams& q, cudaStream_t stream, bool programmatic) {
                                              return launch_grid_sample(q, tile, stream, programmatic);
                                          }));
        }
    }
    return options.empty() ? "the reference kernel is the only one of what is indexed so" : "";
}

} // namespace lathe::cuda
