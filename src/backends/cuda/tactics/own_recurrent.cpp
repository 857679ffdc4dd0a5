// Options of recurrent cells of many samples.

#include <cmath>

#include "backends/cuda/kernels/recurrent_mma.hpp"
#include "backends/cuda/tactics/own_options.hpp"

namespace lathe::cuda {

using namespace kernels;

namespace {

/// Clock cycles, roughly, to order candidates: rounds of blocks, each of a step's instructions and its wait.
double recurrent_cost(const RecurrentMmaTile& tile, const RecurrentParams& p, const Device& device) {
    const auto width = static_cast<double>(p.width), gates = static_cast<double>(gates_of(p.cell));
    const double blocks = std::ceil(static_cast<double>(p.batch) / tile.samples) * static_cast<double>(p.directions);
    const double at_once =
        std::max(1.0, std::floor(227.0 * 1024 / static_cast<double>(recurrent_mma_shared_bytes(tile, p))));
    const double rounds =
        std::ceil(blocks * tile.blocks / (std::max(1, device.multiprocessors) * std::min(at_once, 4.0)));
    const double products = tile.samples / 16.0 * width / tile.blocks / 8 * width / 16 * gates;
    const double meeting = tile.blocks == 1 ? 300 : 900 + 60.0 * tile.blocks;
    return rounds * static_cast<double>(p.steps) * (meeting + products * 4);
}

} // namespace

std::string recurrent_options(const FusedOp& op, const Plan& plan, const Device& device, std::vector<Option>& options) {
    const RecurrentParams params = recurrent_params(op, plan);
    for (const int blocks : {1, 2, 4, 8, 16})
        for (const int samples : {16, 32, 64}) {
            const RecurrentMmaTile tile{blocks, samples};
            // Smaller tiles have what larger ones would leave empty.
            if ((samples > 16 && params.batch <= samples / 2) || (blocks > 1 && device.sm != 90)) continue;
            if (!recurrent_mma_takes(tile, params)) continue;
            if (recurrent_mma_shared_bytes(tile, params) > device.shared_per_block) continue;
            const std::string id = "recurrent_mma/" + std::to_string(blocks) + "x" + std::to_string(samples);
            options.push_back(make_option(op, waits_on(device), id, recurrent_cost(tile, params, device), params,
                                          recurrent_setter(op, plan),
                                          [tile](const RecurrentParams& p, cudaStream_t stream, bool programmatic) {
                                              return launch_recurrent_mma(tile, p, stream, programmatic);
                                          }));
        }
    return options.empty() ? "a recurrent state of a width, type or reset gate without a kernel" : "";
}

} // namespace lathe::cuda
