#include "backends/fallback/split_model.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "backends/api/compiled_form.hpp"
#include "backends/fallback/split_form.hpp"

namespace lathe {
namespace {

using Clock = std::chrono::steady_clock;
double milliseconds(Clock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

class SplitSession final : public BackendSession {
public:
    SplitSession(std::shared_ptr<const SplitModel::Wiring> wiring,
                 std::vector<std::unique_ptr<BackendSession>> sessions, int device)
        : wiring_(std::move(wiring)), sessions_(std::move(sessions)), host_ms_(sessions_.size()), device_(device) {}

    Result<void> set_input(std::size_t index, const TensorView& view) override {
        return give(index, [&](BackendSession& session, std::size_t at, bool) { return session.set_input(at, view); });
    }

    Result<void> keep_input(std::size_t index, const TensorView& view) override {
        std::vector<std::byte>& copy = kept_[index];
        copy.assign(view.bytes.begin(), view.bytes.end());
        TensorView own = view;
        own.bytes = copy;
        return give(index, [&](BackendSession& session, std::size_t at, bool gpu) {
            return gpu ? session.keep_input(at, view) : session.set_input(at, own);
        });
    }

    Result<void> run() override {
        for (std::size_t part = 0; part < sessions_.size(); ++part) {
            const auto& sources = wiring_->inputs[part];
            for (std::size_t i = 0; i < sources.size(); ++i) {
                if (sources[i].part < 0) continue;
                LATHE_TRY(const TensorView view,
                          sessions_[static_cast<std::size_t>(sources[i].part)]->output(sources[i].index));
                LATHE_CHECK(sessions_[part]->set_input(i, view));
            }
            const auto start = Clock::now();
            LATHE_CHECK(sessions_[part]->run());
            host_ms_[part] = milliseconds(Clock::now() - start);
        }
        return {};
    }

    Result<TensorView> output(std::size_t index) override {
        const SplitModel::Source& source = wiring_->outputs[index];
        return sessions_[static_cast<std::size_t>(source.part)]->output(source.index);
    }

    Result<std::vector<LayerInfo>> profile() override {
        std::vector<LayerInfo> layers;
        for (std::size_t part = 0; part < sessions_.size(); ++part) {
            if (wiring_->parts[part].gpu) {
                LATHE_TRY(auto of_part, sessions_[part]->profile());
                layers.insert(layers.end(), of_part.begin(), of_part.end());
                continue;
            }
            LATHE_TRY(auto of_part, wiring_->parts[part].model->layers());
            if (of_part.empty()) continue;
            // The host's layers are not timed one by one: the first stands for all.
            LayerInfo all = of_part.front();
            all.name = "on the CPU: " + std::to_string(of_part.size()) + " layers from " + all.name + " on";
            all.milliseconds = host_ms_[part];
            for (std::size_t i = 1; i < of_part.size(); ++i)
                all.nodes.insert(all.nodes.end(), of_part[i].nodes.begin(), of_part[i].nodes.end());
            layers.push_back(std::move(all));
        }
        return layers;
    }

    Result<void> set_timing(bool on) override {
        for (std::size_t part = 0; part < sessions_.size(); ++part)
            if (wiring_->parts[part].gpu) LATHE_CHECK(sessions_[part]->set_timing(on));
        return {};
    }

    /// compute_ms holds the host's parts too.
    Result<RunTimes> times() override {
        RunTimes sum;
        for (std::size_t part = 0; part < sessions_.size(); ++part) {
            if (!wiring_->parts[part].gpu) {
                sum.compute_ms += host_ms_[part];
                continue;
            }
            LATHE_TRY(const RunTimes times, sessions_[part]->times());
            sum.copy_in_ms += times.copy_in_ms;
            sum.compute_ms += times.compute_ms;
            sum.copy_out_ms += times.copy_out_ms;
            sum.enqueue_us += times.enqueue_us;
        }
        return sum;
    }

    int device() const override { return device_; }

private:
    /// To every part that reads this input.
    template <class Give>
    Result<void> give(std::size_t index, const Give& to) {
        for (std::size_t part = 0; part < sessions_.size(); ++part) {
            const auto& sources = wiring_->inputs[part];
            for (std::size_t i = 0; i < sources.size(); ++i) {
                if (sources[i].part >= 0 || sources[i].index != index) continue;
                LATHE_CHECK(to(*sessions_[part], i, wiring_->parts[part].gpu));
            }
        }
        return {};
    }

    std::shared_ptr<const SplitModel::Wiring> wiring_;
    std::vector<std::unique_ptr<BackendSession>> sessions_; ///< by part
    std::vector<double> host_ms_;                           ///< of the last run, by part
    std::map<std::size_t, std::vector<std::byte>> kept_;    ///< by input: what the host reads of kept ones
    int device_ = 0;
};

std::optional<std::size_t> place_of(const std::vector<IoInfo>& list, const std::string& name) {
    const auto found = std::find_if(list.begin(), list.end(), [&](const IoInfo& io) { return io.name == name; });
    if (found == list.end()) return std::nullopt;
    return static_cast<std::size_t>(found - list.begin());
}

} // namespace

Result<std::unique_ptr<CompiledModel>> SplitModel::make(std::vector<IoInfo> inputs, std::vector<IoInfo> outputs,
                                                        std::vector<SplitPart> parts) {
    auto wiring = std::make_shared<Wiring>();
    const auto source_of = [&](const std::string& name, std::size_t before) -> Result<Source> {
        for (std::size_t part = before; part-- > 0;)
            if (const auto at = place_of(parts[part].model->outputs(), name))
                return Source{static_cast<int>(part), *at};
        if (const auto at = place_of(inputs, name)) return Source{-1, *at};
        return damaged_form("no part makes " + name);
    };
    for (std::size_t part = 0; part < parts.size(); ++part) {
        std::vector<Source> sources;
        for (const IoInfo& input : parts[part].model->inputs()) {
            LATHE_TRY(const Source source, source_of(input.name, part));
            sources.push_back(source);
        }
        wiring->inputs.push_back(std::move(sources));
    }
    for (const IoInfo& output : outputs) {
        LATHE_TRY(const Source source, source_of(output.name, parts.size()));
        if (source.part < 0) return damaged_form("output " + output.name + " is an input");
        wiring->outputs.push_back(source);
    }
    wiring->parts = std::move(parts);
    std::unique_ptr<SplitModel> made(new SplitModel);
    made->inputs_ = std::move(inputs);
    made->outputs_ = std::move(outputs);
    made->wiring_ = std::move(wiring);
    return std::unique_ptr<CompiledModel>(std::move(made));
}

Result<std::unique_ptr<BackendSession>> SplitModel::session(std::optional<int> device) const {
    std::vector<std::unique_ptr<BackendSession>> sessions;
    std::optional<int> on = device;
    for (const SplitPart& part : wiring_->parts) {
        if (part.gpu && on) {
            LATHE_TRY(auto made, part.model->make_session_on(*on));
            sessions.push_back(std::move(made));
        } else {
            LATHE_TRY(auto made, part.model->make_session());
            // The first part's choice of a GPU is the others' too.
            if (part.gpu) on = made->device();
            sessions.push_back(std::move(made));
        }
    }
    return std::unique_ptr<BackendSession>(
        std::make_unique<SplitSession>(wiring_, std::move(sessions), on.value_or(0)));
}
Result<std::unique_ptr<BackendSession>> SplitModel::make_session() const { return session(std::nullopt); }
Result<std::unique_ptr<BackendSession>> SplitModel::make_session_on(int device) const { return session(device); }

Result<std::vector<LayerInfo>> SplitModel::layers() const {
    std::vector<LayerInfo> layers;
    for (const SplitPart& part : wiring_->parts) {
        LATHE_TRY(auto of_part, part.model->layers());
        if (!part.gpu)
            for (LayerInfo& layer : of_part)
                layer.implementation = "cpu: " + layer.implementation;
        layers.insert(layers.end(), of_part.begin(), of_part.end());
    }
    return layers;
}

Result<ByteChain> SplitModel::save() const {
    std::vector<std::pair<SplitFormPart, ByteChain>> forms;
    for (const SplitPart& part : wiring_->parts) {
        if (part.gpu) {
            LATHE_TRY(ByteChain form, part.model->save());
            forms.emplace_back(SplitFormPart{true, {}, {}}, std::move(form));
        } else {
            ByteChain form;
            auto text = std::make_shared<const std::string>(part.onnx);
            form.add(std::as_bytes(std::span(*text)), text);
            forms.emplace_back(SplitFormPart{false, {}, part.reasons}, std::move(form));
        }
    }
    return write_split_form(inputs_, outputs_, std::move(forms));
}

Result<EngineMemory> SplitModel::memory() const {
    EngineMemory sum;
    for (const SplitPart& part : wiring_->parts) {
        if (!part.gpu) continue;
        LATHE_TRY(const EngineMemory of_part, part.model->memory());
        sum.weights += of_part.weights;
        sum.activations += of_part.activations;
        sum.workspace += of_part.workspace;
        sum.staging += of_part.staging;
        sum.peak = std::max(sum.peak, of_part.peak);
        sum.sessions = std::max(sum.sessions, of_part.sessions);
        sum.devices = of_part.devices;
    }
    return sum;
}

std::size_t SplitModel::copied_bytes() const {
    std::size_t bytes = 0;
    for (std::size_t part = 0; part < wiring_->parts.size(); ++part) {
        for (std::size_t i = 0; i < wiring_->inputs[part].size(); ++i) {
            if (wiring_->inputs[part][i].part < 0) continue;
            const IoInfo& info = wiring_->parts[part].model->inputs()[i];
            const std::int64_t count = element_count(info.range.max);
            if (count > 0) bytes += byte_size(info.type, static_cast<std::size_t>(count));
        }
    }
    return bytes;
}

Result<BuildReport> SplitModel::report() const {
    BuildReport sum;
    std::vector<std::string> host;
    double weight = 0;
    for (std::size_t i = 0; i < wiring_->parts.size(); ++i) {
        const SplitPart& part = wiring_->parts[i];
        if (!part.gpu) {
            for (const std::string& reason : part.reasons)
                host.push_back("part " + std::to_string(i + 1) + " runs on the CPU: " + reason);
            continue;
        }
        LATHE_TRY(BuildReport of_part, part.model->report());
        double operations = 0;
        for (const auto& op : of_part.ops)
            operations += op.operations;
        for (const auto& [precision, share] : of_part.precision_share)
            sum.precision_share[precision] += share * operations;
        weight += operations;
        sum.ops.insert(sum.ops.end(), of_part.ops.begin(), of_part.ops.end());
        sum.limits = of_part.limits;
        sum.arena_bytes += of_part.arena_bytes;
        sum.arena_lower_bound += of_part.arena_lower_bound;
        sum.workspace_bytes += of_part.workspace_bytes;
        sum.weight_bytes += of_part.weight_bytes;
        sum.fallbacks.insert(sum.fallbacks.end(), of_part.fallbacks.begin(), of_part.fallbacks.end());
        sum.clamped.insert(sum.clamped.end(), of_part.clamped.begin(), of_part.clamped.end());
        sum.build_seconds += of_part.build_seconds;
        sum.check_seconds += of_part.check_seconds;
        sum.checked_operations += of_part.checked_operations;
        sum.checked_before += of_part.checked_before;
        sum.check_notes.insert(sum.check_notes.end(), of_part.check_notes.begin(), of_part.check_notes.end());
    }
    for (auto& [precision, share] : sum.precision_share)
        share = weight > 0 ? share / weight : 0;
    sum.fallbacks.insert(sum.fallbacks.end(), host.begin(), host.end());
    std::size_t values = 0;
    std::string names;
    for (std::size_t part = 0; part < wiring_->parts.size(); ++part) {
        for (std::size_t i = 0; i < wiring_->inputs[part].size(); ++i) {
            if (wiring_->inputs[part][i].part < 0) continue;
            ++values;
            names += (names.empty() ? "" : ", ") + wiring_->parts[part].model->inputs()[i].name;
        }
    }
    sum.fallbacks.push_back(std::to_string(values) + " values, " + std::to_string(copied_bytes()) +
                            " bytes, are copied between GPU and CPU in each run: " + names);
    return sum;
}

} // namespace lathe
