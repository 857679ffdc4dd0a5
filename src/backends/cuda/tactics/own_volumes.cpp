// Options of what volumes have beside images.

#include "backends/cuda/kernels/depth_taps.hpp"
#include "backends/cuda/tactics/own_options.hpp"

namespace lathe::cuda {

std::string depth_taps_options(const FusedOp& op, const Plan& plan, std::vector<Option>& options, bool waits) {
    const auto* detail = std::get_if<Indexed>(&op.detail);
    if (detail == nullptr || detail->kind != IndexedKind::depth_taps) return "other than depths of a volume";
    const Value &x = plan.values[op.inputs[0]], &y = plan.values[op.outputs[0]];
    const auto bytes = static_cast<std::int64_t>(bytes_of(x.type));
    if (x.channel_stride * bytes % 16 != 0 || y.channel_stride % x.channel_stride != 0)
        return "channels that are not 16 bytes";
    kernels::DepthTapsParams p{};
    p.n = x.dims[0];
    p.depths = x.dims[2];
    p.results = y.dims[2];
    p.pixels = x.dims[3] * x.dims[4];
    p.vectors = x.channel_stride * bytes / 16;
    p.taps = y.channel_stride / x.channel_stride;
    p.stride = detail->axis;
    p.dilation = detail->mode;
    p.before = detail->number;
    options.push_back(make_option(
        op, waits, "depth_taps", 1, p,
        [from = place_of(plan, op.inputs[0]), to = place_of(plan, op.outputs[0])](kernels::DepthTapsParams& q,
                                                                                  const Pointers& pointers) {
            q.x = from.in(pointers);
            q.y = to.in(pointers);
        },
        kernels::launch_depth_taps));
    return "";
}

} // namespace lathe::cuda
