// Options of squeeze and excite: kernels/squeeze.cu.

#include <algorithm>
#include <cmath>

#include "backends/cuda/kernels/squeeze.hpp"
#include "backends/cuda/tactics/own_options.hpp"

namespace lathe::cuda {

using namespace kernels;

std::string squeeze_options(const FusedOp& op, const Chain& chain, const Plan& plan, const Device& device,
                            std::vector<Option>& options) {
    const FusedOp &average = chain.parts[0], &inner = chain.parts[1], &outer = chain.parts[2];
    const auto &first = std::get<Conv>(inner.detail), &second = std::get<Conv>(outer.detail);
    const Value &x = plan.values[average.inputs[0]], &hidden = plan.values[inner.outputs[0]],
                &y = plan.values[outer.outputs[0]];
    if (!fits_32(x.dims[2] * x.dims[3])) return "an image of over 2^31 pixels";
    SqueezeParams p{};
    p.type = type_number(x.type);
    p.n = narrow(x.dims[0]);
    p.pixels = narrow(x.dims[2] * x.dims[3]);
    p.c = narrow(x.dims[1]);
    p.c_pitch = narrow(x.channel_stride);
    p.hidden = narrow(hidden.dims[1]);
    p.first_c = narrow(weight_of(plan, first.weight).dims.back());
    p.k = narrow(y.dims[1]);
    p.second_c = narrow(weight_of(plan, second.weight).dims.back());
    p.k_stride = narrow(y.channel_stride);
    p.factor = std::get<GlobalPool>(average.detail).rescale;
    p.inner = epilogue_params(first.epilogue, plan);
    p.outer = epilogue_params(second.epilogue, plan);
    const auto set = [x_at = place_of(plan, average.inputs[0]), y_at = place_of(plan, outer.outputs[0]),
                      w1 = first.weight, w2 = second.weight, e1 = first.epilogue,
                      e2 = second.epilogue](SqueezeParams& q, const Pointers& pointers) {
        q.input = x_at.in(pointers);
        q.output = y_at.in(pointers);
        q.first = weight_address(pointers, w1);
        q.second = weight_address(pointers, w2);
        bind_epilogue(q.inner, e1, {}, pointers);
        bind_epilogue(q.outer, e2, {}, pointers);
    };
    for (const SqueezeTile& tile : {SqueezeTile{8, true}, {4, true}, {2, true}, {1, false}, {2, false}, {8, false}}) {
        if (tile.shared && device.sm < 90) continue; // no clusters
        if (!squeeze_takes(p, tile) || squeeze_shared_bytes(p, tile) > device.shared_per_block) continue;
        // What a block reads and multiplies, as often as blocks come one after the other; meeting costs as well.
        const double alone = static_cast<double>(p.pixels) * p.c + static_cast<double>(p.hidden) * p.first_c;
        const double rounds = std::ceil(1.0 * p.n * tile.blocks / std::max(1, device.multiprocessors));
        const double cost = rounds * (alone / (tile.shared ? tile.blocks : 1) +
                                      static_cast<double>(p.k) * p.second_c / tile.blocks + (tile.shared ? 5e4 : 0.0));
        const std::string id = std::string(tile.shared ? "squeeze/x" : "squeeze/r") + std::to_string(tile.blocks);
        options.push_back(make_option(op, waits_on(device), id, cost, p, set,
                                      [tile](const SqueezeParams& q, cudaStream_t stream, bool programmatic) {
                                          return launch_squeeze(q, tile, stream, programmatic);
                                      }));
    }
    return options.empty() ? "squeeze and excite of a type, padding or size without a kernel" : "";
}

} // namespace lathe::cuda
