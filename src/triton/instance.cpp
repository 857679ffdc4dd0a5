#include "triton/instance.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "triton/requests.hpp"

namespace lathe::triton {

struct Instance::Pending {
    TRITONBACKEND_Request* request = nullptr;
    RequestInputs inputs;
    std::vector<std::byte> strings;             ///< its pictures or texts, where the server had them in pieces
    std::vector<std::vector<std::byte>> copied; ///< inputs that are read on the host and lay in a GPU's memory
    std::vector<float> floats;                  ///< what its pictures became
    std::vector<HostTensor> tokens;             ///< what its texts or pixels became
    bool answered = false;
    bool succeeded = false;
};

struct Instance::Times {
    std::uint64_t begin = 0;
    std::uint64_t compute_begin = 0;
    std::uint64_t compute_end = 0;
};

Result<std::unique_ptr<Instance>> Instance::make(TRITONBACKEND_ModelInstance* instance, ServedModel& model) {
    std::int32_t device = 0;
    LATHE_CHECK(taken(TRITONBACKEND_ModelInstanceDeviceId(instance, &device)));
    std::unique_ptr<Instance> made(new Instance(instance, model));
    made->device_ = device;
    if (model.serving().generation) {
        LATHE_TRY(made->generating_, Generating::make(instance, model, device));
        return made;
    }
    LATHE_TRY(made->session_, model.make_session(device));
    const ServedAs& serving = model.serving();
    if (serving.pictures || (serving.pixels && !serving.pixels->on_device()))
        made->pool_ = std::make_unique<ThreadPool>();
    if (serving.on_gpu) {
        LATHE_CHECK(made->warm_up());
        made->reaches_gpu_ = bool(device_outputs(*made->session_));
    }
    if (model.serving().texts) {
        LATHE_TRY(made->tokenizer_, model.make_tokenizer());
    }
    return made;
}

Result<DeviceCopies*> Instance::copies() {
    if (copies_ == nullptr) {
        LATHE_TRY(copies_, make_device_copies(device_));
    }
    if (!on_device_) on_device_.emplace(*copies_);
    return copies_.get();
}

Result<void> Instance::read(Pending& pending) try {
    const ServedAs& serving = model_.serving();
    RequestInputs& read = pending.inputs;
    LATHE_CHECK(check_not_cancelled(pending.request));
    const auto take = [&](const std::string& name, TRITONSERVER_DataType type, bool in_gpu) -> Result<void> {
        std::vector<std::byte>& kept = pending.copied.emplace_back();
        auto pieces = in_gpu ? read_input(pending.request, name, type)
                             : read_host_input(pending.request, name, type, device_, copies_, kept);
        if (!pieces) return std::move(pieces).error();
        read.inputs.push_back(*std::move(pieces));
        return {};
    };
    // Strings have no shape yet.
    if (serving.takes_strings()) return take(serving.string_input(), TRITONSERVER_TYPE_BYTES, false);
    if (serving.pixels) {
        LATHE_CHECK(take(serving.inputs[0].name, TRITONSERVER_TYPE_UINT8, false));
        return serving.pixels->check(read, serving.most);
    }
    pending.copied.reserve(serving.inputs.size());
    for (const IoInfo& input : serving.inputs)
        LATHE_CHECK(take(input.name, type_for_server(input.type), reaches_gpu_));
    return serving.check(read);
} catch (const std::exception& failure) {
    return Error{ErrorCode::out_of_memory, std::string("the request cannot be read: ") + failure.what(), "", ""};
}

void Instance::execute(std::span<TRITONBACKEND_Request* const> requests) {
    if (generating_) {
        generating_->execute(requests);
        return;
    }
    Times times;
    times.begin = times.compute_begin = times.compute_end = now();
    const auto finish = [&](Pending& pending) {
        // Both fail only for handles that are not the server's.
        (void)taken(TRITONBACKEND_ModelInstanceReportStatistics(
            instance_, pending.request, pending.succeeded, times.begin, times.compute_begin, times.compute_end, now()));
        (void)taken(TRITONBACKEND_RequestRelease(pending.request, TRITONSERVER_REQUEST_RELEASE_ALL));
    };
    std::vector<Pending> all(requests.size());
    // No memory is asked for once the first run was answered.
    std::vector<Pending*> group;
    std::vector<std::size_t> chosen;
    std::vector<const RequestInputs*> waiting;
    group.reserve(all.size());
    chosen.reserve(all.size());
    waiting.reserve(all.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
        all[i].request = requests[i];
        if (auto done = read(all[i]); !done) refuse(all[i], done.error());
    }
    if (model_.serving().pictures) decode(all);
    if (model_.serving().texts) tokenize(all);
    if (model_.serving().pixels && !model_.serving().pixels->on_device()) convert(all);
    for (Pending& pending : all) {
        waiting.push_back(pending.answered ? nullptr : &pending.inputs);
        if (pending.answered) finish(pending);
    }
    // The server batches by its config; shapes that cannot share a run after all get runs of their own.
    for (model_.serving().next_run(waiting, chosen); !chosen.empty(); model_.serving().next_run(waiting, chosen)) {
        group.clear();
        std::int64_t samples = 0;
        for (const std::size_t i : chosen) {
            group.push_back(&all[i]);
            samples += all[i].inputs.samples;
            waiting[i] = nullptr;
        }
        run(group, times);
        const auto succeeded = std::ranges::any_of(group, [](const Pending* each) { return each->succeeded; });
        if (succeeded)
            (void)taken(TRITONBACKEND_ModelInstanceReportBatchStatistics(instance_, static_cast<std::uint64_t>(samples),
                                                                         times.begin, times.compute_begin,
                                                                         times.compute_end, now()));
        for (Pending* pending : group)
            finish(*pending);
        times.begin = now();
    }
}

/// The strings of a request that holds nothing else.
Result<std::vector<std::span<const std::byte>>> Instance::strings_of(Pending& pending) const {
    const InputPieces& input = pending.inputs.inputs[0];
    if (input.pieces.size() != 1) {
        for (const auto& piece : input.pieces)
            pending.strings.insert(pending.strings.end(), piece.begin(), piece.end());
    }
    const std::span<const std::byte> bytes = input.pieces.size() == 1 ? input.pieces[0] : std::span(pending.strings);
    const std::int64_t samples = input.shape.empty() ? 0 : input.shape[0];
    if (samples < 1 || samples > model_.serving().most) {
        return Error{ErrorCode::out_of_range,
                     std::to_string(samples) + (tokenizer_ ? " texts" : " pictures") + " are not 1 to " +
                         std::to_string(model_.serving().most),
                     model_.serving().string_input(), ""};
    }
    return split_strings(bytes, static_cast<std::size_t>(samples));
}

/// The texts of each request. One that is no text is refused with its request, no other.
void Instance::tokenize(std::span<Pending> all) {
    const auto prepare = [&](Pending& pending) -> Result<void> {
        LATHE_TRY(const auto strings, strings_of(pending));
        std::vector<std::string> texts;
        for (const auto& each : strings)
            texts.emplace_back(reinterpret_cast<const char*>(each.data()), each.size());
        LATHE_TRY(pending.tokens, model_.serving().texts->tokens(texts, *tokenizer_));
        pending.inputs.inputs.clear();
        for (const HostTensor& tensor : pending.tokens)
            pending.inputs.inputs.push_back({tensor.shape, {std::span(tensor.bytes)}});
        return model_.serving().check(pending.inputs);
    };
    for (Pending& pending : all) {
        if (pending.answered) continue;
        try {
            if (auto prepared = prepare(pending); !prepared) refuse(pending, prepared.error());
        } catch (const std::exception& failure) {
            refuse(pending, {ErrorCode::out_of_memory, std::string("texts cannot be read: ") + failure.what(), "", ""});
        }
    }
}

/// The pictures of all requests side by side. A request with one that cannot be read is refused, no other.
void Instance::decode(std::span<Pending> all) try {
    const PictureStage& stage = *model_.serving().pictures;
    std::vector<PictureJob> jobs;
    const auto prepare = [&](Pending& pending) -> Result<void> {
        LATHE_TRY(const auto files, strings_of(pending));
        pending.floats.resize(files.size() * stage.floats_each());
        for (std::size_t i = 0; i < files.size(); ++i)
            jobs.push_back({files[i], std::span(pending.floats).subspan(i * stage.floats_each(), stage.floats_each())});
        pending.inputs.inputs[0] = {stage.shape(static_cast<std::int64_t>(files.size())),
                                    {std::as_bytes(std::span(pending.floats))}};
        return model_.serving().check(pending.inputs);
    };
    std::vector<std::pair<Pending*, std::size_t>> owners; // and the end of their jobs
    for (Pending& pending : all) {
        if (pending.answered) continue;
        if (auto prepared = prepare(pending); !prepared) refuse(pending, prepared.error());
        owners.emplace_back(&pending, jobs.size());
    }
    stage.run(jobs, *pool_);
    std::size_t next = 0;
    for (const auto& [pending, end] : owners) {
        for (const std::size_t first = next; next < end; ++next) {
            if (jobs[next].done || pending->answered) continue;
            refuse(*pending, std::move(jobs[next].done)
                                 .error()
                                 .in(model_.serving().inputs[0].name + " " + std::to_string(next - first)));
        }
    }
} catch (const std::exception& failure) {
    for (Pending& pending : all)
        refuse(pending, {ErrorCode::out_of_memory, std::string("pictures cannot be read: ") + failure.what(), "", ""});
}

/// The pixels of each request, where the device does not read them.
void Instance::convert(std::span<Pending> all) {
    const auto prepare = [&](Pending& pending) -> Result<void> {
        LATHE_TRY(HostTensor made, model_.serving().pixels->convert(pending.inputs, *pool_));
        pending.tokens.push_back(std::move(made));
        pending.inputs.inputs[0] = {pending.tokens[0].shape, {std::span(pending.tokens[0].bytes)}};
        return model_.serving().check(pending.inputs);
    };
    for (Pending& pending : all) {
        if (pending.answered) continue;
        try {
            if (auto prepared = prepare(pending); !prepared) refuse(pending, prepared.error());
        } catch (const std::exception& failure) {
            refuse(pending,
                   {ErrorCode::out_of_memory, std::string("pictures cannot be read: ") + failure.what(), "", ""});
        }
    }
}

/// Each size of a run once, so that no request waits for what the device prepares for it. Of texts, which have too many
/// sizes, the smallest.
Result<void> Instance::warm_up() {
    const ServedAs& serving = model_.serving();
    const auto run = [&](std::optional<std::int64_t> size) -> Result<void> {
        if (serving.pixels && serving.pixels->on_device()) {
            LATHE_TRY(const PictureBatch blank, serving.pixels->blank(size.value_or(serving.least), pixels_));
            LATHE_CHECK(session_->run_pictures(blank));
            return {};
        }
        std::vector<HostTensor> zeros;
        for (const IoInfo& input : serving.inputs) {
            Shape shape = input.range.opt;
            if (size) shape[0] = *size;
            zeros.emplace_back(input.name, input.type, shape);
        }
        std::vector<TensorView> views;
        for (HostTensor& tensor : zeros)
            views.push_back(tensor.view());
        LATHE_CHECK(session_->run(views));
        return {};
    };
    std::vector<std::optional<std::int64_t>> sizes(serving.sizes.begin(), serving.sizes.end());
    std::erase_if(sizes, [&](const auto& size) { return *size < serving.least; });
    if (sizes.empty()) sizes.emplace_back(); // that which the engine was tuned for
    if (serving.filling) sizes.resize(1);
    for (const auto& size : sizes) {
        // Not all need be in a profile, together with the best of the other axes.
        if (auto ran = run(size); !ran && ran.error().code != ErrorCode::out_of_range) return std::move(ran).error();
    }
    return {};
}

/// Whatever happens, every request of the group is answered.
void Instance::run(std::span<Pending*> group, Times& times) {
    times.compute_begin = times.compute_end = times.begin;
    Result<void> ran;
    try {
        ran = run_group(group, times);
    } catch (const std::exception& failure) {
        ran = Error{ErrorCode::out_of_memory, std::string("the run failed: ") + failure.what(), "", ""};
    }
    if (ran) return;
    for (Pending* pending : group) {
        if (!pending->answered) refuse(*pending, ran.error());
    }
}

Result<void> Instance::run_group(std::span<Pending*> group, Times& times) {
    std::vector<const RequestInputs*> inputs;
    inputs.reserve(group.size());
    for (const Pending* pending : group)
        inputs.push_back(&pending->inputs);
    RunSize size;
    LATHE_TRY(const std::vector<TensorView> outputs, run_session(inputs, size, times));
    times.compute_end = now();
    std::int64_t first = 0;
    for (Pending* pending : group) {
        if (auto answered = answer(*pending, outputs, size, first); !answered) refuse(*pending, answered.error());
        first += pending->inputs.samples;
    }
    return {};
}

Result<std::vector<TensorView>> Instance::run_session(std::span<const RequestInputs* const> inputs, RunSize& size,
                                                      Times& times) {
    const ServedAs& serving = model_.serving();
    if (serving.pixels && serving.pixels->on_device()) {
        for (const RequestInputs* request : inputs)
            size.samples += request->samples;
        size.samples = serving.run_size(size.samples);
        LATHE_TRY(const PictureBatch batch, serving.pixels->batch(inputs, size.samples, pixels_));
        times.compute_begin = now();
        return session_->run_pictures(batch);
    }
    const auto memory = [&](std::size_t i) { return session_->input_memory(i); };
    const auto in_gpu = [](const RequestInputs* request) {
        return std::ranges::any_of(request->inputs, &InputPieces::any_in_gpu);
    };
    if (std::ranges::any_of(inputs, in_gpu)) {
        LATHE_CHECK(copies());
        LATHE_TRY(const auto views, on_device_->join(serving, inputs, memory));
        size = on_device_->size();
        times.compute_begin = now();
        return run_on_device(*session_, views);
    }
    const auto views = joined_.join(serving, inputs, memory);
    size = joined_.size();
    times.compute_begin = now();
    return session_->run(views);
}

Result<void> Instance::answer(Pending& pending, const std::vector<TensorView>& outputs, const RunSize& size,
                              std::int64_t first) {
    LATHE_TRY(Response response, Response::to(pending.request));
    bool copied = false; // to a GPU's memory
    std::uint32_t count = 0;
    LATHE_CHECK(taken(TRITONBACKEND_RequestOutputCount(pending.request, &count)));
    for (std::uint32_t i = 0; i < count; ++i) {
        const char* name = nullptr;
        LATHE_CHECK(taken(TRITONBACKEND_RequestOutputName(pending.request, i, &name)));
        const auto found = std::ranges::find(model_.serving().outputs, std::string_view(name), &IoInfo::name);
        if (found == model_.serving().outputs.end())
            return Error{ErrorCode::not_found, "the engine has no such output", name, ""};
        const auto index = static_cast<std::size_t>(found - model_.serving().outputs.begin());
        LATHE_TRY(const OutputPart part,
                  OutputPart::of(model_.serving(), index, outputs[index], size, pending.inputs, first));
        LATHE_TRY(const Response::Place place,
                  response.place_for(found->name, type_for_server(outputs[index].type), part.shape(), part.bytes()));
        if (!place.in_gpu) {
            part.write(place.memory);
            continue;
        }
        LATHE_TRY(DeviceCopies* const copying, copies());
        copied = true;
        if (!reaches_gpu_) {
            LATHE_CHECK(part.write(place.memory, *copying));
            continue;
        }
        LATHE_TRY(const auto there, device_outputs(*session_));
        LATHE_TRY(const OutputPart same,
                  OutputPart::of(model_.serving(), index, there[index], size, pending.inputs, first));
        LATHE_CHECK(same.write(place.memory, *copying));
    }
    if (copied) LATHE_CHECK(copies_->wait());
    pending.answered = true;
    LATHE_CHECK(response.send(nullptr, true));
    pending.succeeded = true;
    return {};
}

void Instance::refuse(Pending& pending, const Error& error) {
    if (std::exchange(pending.answered, true)) return;
    refuse_request(pending.request, model_.name(), error);
}

} // namespace lathe::triton
