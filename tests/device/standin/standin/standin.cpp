// A pretend accelerator: tensors of torch's device type PrivateUse1, in host memory that the dispatcher keeps apart.
// Every operation runs the CPU's kernel, after a check that no argument but a scalar is a CPU tensor.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/ScopeExit.h>
#include <pybind11/chrono.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/extension.h>

#include <map>
#include <mutex>
#include <set>
#include <string>

namespace {
using c10::Device;
using c10::DeviceIndex;
using c10::Stream;
using std::optional;

constexpr auto KIND = c10::DeviceType::PrivateUse1;
constexpr size_t HEADER = 64;  // bytes before each allocation, which hold its size

thread_local DeviceIndex current = 0;
thread_local bool is_in_kernel = false;  // what a kernel copies to the CPU is no wait of the host
DeviceIndex num_devices = 8;
std::atomic<long> waits{0}, in_use{0}, peak{0}, budget{0}, emptied{0};
std::mutex counting;
std::map<std::string, long> kernels;

void release(void* header) {
  in_use -= static_cast<size_t*>(header)[0];
  c10::free_cpu(header);
}
void release_nothing(void*) {}

struct Memory final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t num_bytes) override {
    Device device(KIND, current);
    if (num_bytes == 0) return {nullptr, nullptr, &release_nothing, device};
    TORCH_CHECK_WITH(OutOfMemoryError, budget == 0 || in_use + static_cast<long>(num_bytes) <= budget,
                     "standin is out of memory: tried to allocate ", num_bytes, " bytes");
    auto* header = static_cast<size_t*>(c10::alloc_cpu(num_bytes + HEADER));
    header[0] = num_bytes;
    long now = in_use += num_bytes, before = peak;
    while (now > before && !peak.compare_exchange_weak(before, now)) {}
    return {reinterpret_cast<char*>(header) + HEADER, header, &release, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t num_bytes) const override { memcpy(to, from, num_bytes); }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override { ++emptied; }
  void recordStream(const c10::DataPtr&, Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex) override { return {}; }
  void resetAccumulatedStats(DeviceIndex) override {}
  void resetPeakStats(DeviceIndex) override { peak = in_use.load(); }
};
Memory memory;
REGISTER_ALLOCATOR(KIND, &memory)

// There are no queues of work: every operation is finished when it returns, so that waiting does nothing.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  static Stream stream(Device device) { return Stream(Stream::DEFAULT, device); }
  c10::DeviceType type() const override { return KIND; }
  Device exchangeDevice(Device device) const override {
    auto before = current;
    current = device.index();
    return {KIND, before};
  }
  Device getDevice() const override { return {KIND, current}; }
  void setDevice(Device device) const override { uncheckedSetDevice(device); }
  void uncheckedSetDevice(Device device) const noexcept override {
    if (device.index() >= 0) current = device.index();
  }
  Stream getStream(Device device) const noexcept override { return stream(device); }
  Stream getDefaultStream(Device device) const override { return stream(device); }
  Stream getNewStream(Device device, int) const override { return stream(device); }
  Stream getStreamFromGlobalPool(Device device, bool) const override { return stream(device); }
  Stream exchangeStream(Stream other) const noexcept override { return stream(other.device()); }
  DeviceIndex deviceCount() const noexcept override { return num_devices; }
  void destroyEvent(void*, DeviceIndex) const noexcept override {}
  void record(void** event, const Stream&, DeviceIndex, c10::EventFlag) const override {
    *event = reinterpret_cast<void*>(1);
  }
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const Stream&) const override { return true; }
  void synchronizeStream(const Stream&) const override {}
  void synchronizeEvent(void*) const override {}
  void synchronizeDevice(DeviceIndex) const override {}
  void recordDataPtrOnStream(const c10::DataPtr&, const Stream&) const override {}
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

struct DeviceGenerator : at::CPUGeneratorImpl {
  explicit DeviceGenerator(DeviceIndex index) {
    device_ = Device(KIND, index);
    key_set_ = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1);
  }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return num_devices; }
  void setCurrentDevice(DeviceIndex index) const override { current = index; }
  DeviceIndex getCurrentDevice() const override { return current; }
  DeviceIndex exchangeDevice(DeviceIndex index) const override { return std::exchange(current, index); }
  DeviceIndex maybeExchangeDevice(DeviceIndex index) const override { return std::exchange(current, index); }
  const at::Generator& getDefaultGenerator(DeviceIndex index) const override {
    static std::vector<at::Generator> all = [] {
      std::vector<at::Generator> made;
      for (DeviceIndex i = 0; i < num_devices; ++i) made.push_back(at::make_generator<DeviceGenerator>(i));
      return made;
    }();
    return all[index < 0 ? current : index];
  }
  at::Generator getNewGenerator(DeviceIndex index) const override {
    return at::make_generator<DeviceGenerator>(index < 0 ? current : index);
  }
  at::Allocator* getPinnedMemoryAllocator() const override { return at::GetCPUAllocator(); }
  Device getDeviceFromPtr(void*) const override { return {KIND, current}; }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t num_bytes) const override {
    auto* impl = storage.unsafeGetStorageImpl();
    c10::DataPtr data = memory.allocate(num_bytes);
    if (num_bytes && impl->nbytes()) memcpy(data.get(), impl->data(), std::min(num_bytes, impl->nbytes()));
    impl->set_data_ptr_noswap(std::move(data));
    impl->set_nbytes(num_bytes);
  }
};

// The same memory, seen as a CPU tensor.
at::Tensor host(const at::Tensor& tensor) {
  if (tensor.device().type() != KIND) return tensor;
  auto storage = tensor.storage();
  auto* data = static_cast<char*>(const_cast<void*>(storage.data()));
  if (data) data += tensor.storage_offset() * tensor.element_size();
  auto options = tensor.options().device(at::kCPU).requires_grad(false);
  return at::from_blob(data, tensor.sizes(), tensor.strides(), [storage](void*) {}, options, std::nullopt);
}

at::Tensor empty_memory_format(c10::IntArrayRef size, optional<at::ScalarType> dtype, optional<at::Layout>,
                               optional<Device> device, optional<bool>, optional<at::MemoryFormat> format) {
  c10::OptionalDeviceGuard guard(device);
  c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  return at::detail::empty_generic(size, &memory, keys, c10::dtype_or_default(dtype), format);
}
at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, optional<at::ScalarType> dtype,
                         optional<at::Layout>, optional<Device> device, optional<bool>) {
  c10::OptionalDeviceGuard guard(device);
  c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  return at::detail::empty_strided_generic(size, stride, &memory, keys, c10::dtype_or_default(dtype));
}
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (!non_blocking && !is_in_kernel && from.is_cpu() != to.is_cpu()) ++waits;
  at::NoGradGuard no_grad;
  host(to).copy_(host(from));
  return to;
}
at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, true);
}
at::Scalar local_scalar_dense(const at::Tensor& self) {
  ++waits;
  return host(self).item();
}
const at::Tensor& resize_(const at::Tensor& self, c10::SymIntArrayRef size, optional<at::MemoryFormat>) {
  auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  if (sizes == self.sizes()) return self;  // with its strides
  size_t num_bytes = (c10::multiply_integers(sizes) + self.storage_offset()) * self.element_size();
  if (num_bytes > self.storage().nbytes()) {
    at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(self.storage(), num_bytes);
  }
  self.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return self;
}
at::Tensor as_strided(const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride, optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, offset);
}
at::Tensor view(const at::Tensor& self, c10::IntArrayRef size) { return at::native::view(self, size); }
at::Tensor reshape_alias(const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride) {
  return at::native::_reshape_alias(self, size, stride);
}
at::Tensor unfold(const at::Tensor& self, int64_t dim, int64_t size, int64_t step) {
  return at::native::unfold(self, dim, size, step);
}
at::Tensor& set_to_part(at::Tensor& self, at::Storage storage, int64_t offset, c10::IntArrayRef size,
                        c10::IntArrayRef stride) {
  return at::native::set_storage_cpu_(self, storage, offset, size, stride);
}
at::Tensor& set_to_whole(at::Tensor& self, at::Storage storage) {
  int64_t length = storage.nbytes() / self.dtype().itemsize();
  self.set_(storage, 0, length, 1);
  return self;
}

const std::set<std::string> TAKE_HOST_INDICES = {"aten::index", "aten::index_put_", "aten::_index_put_impl_",
                                                 "aten::_pack_padded_sequence"};

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const auto& name = schema.operator_name().name;
  {
    std::lock_guard<std::mutex> lock(counting);
    ++kernels[name];
  }
  std::set<int> devices;
  std::string on_host;
  auto see = [&](const at::Tensor& tensor, const std::string& argument) {
    if (!tensor.defined()) return;
    if (tensor.device().type() == KIND) devices.insert(tensor.device().index());
    else if (tensor.is_cpu() && tensor.dim() > 0) on_host = argument;
  };
  auto arguments = torch::jit::last(*stack, schema.arguments().size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& value = arguments[i];
    const auto& argument = schema.arguments()[i].name();
    if (value.isTensor()) {
      see(value.toTensor(), argument);
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) see(tensor, argument);
    } else if (value.isOptionalTensorList()) {
      for (const c10::IValue& element : value.toListRef()) {
        if (element.isTensor()) see(element.toTensor(), argument);
      }
    }
  }
  TORCH_CHECK(on_host.empty() || TAKE_HOST_INDICES.count(name),
              "Expected all tensors to be on the same device: ", name, " got `", on_host, "` on the CPU");
  TORCH_CHECK(devices.size() <= 1, "Expected all tensors to be on the same device: ", name, " got several");
  if (name == "aten::nonzero") ++waits;  // for the number of results
  bool was_in_kernel = std::exchange(is_in_kernel, true);
  auto leave = c10::make_scope_exit([&] { is_in_kernel = was_in_kernel; });
  at::native::cpu_fallback(op, stack);
}
}  // namespace

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}
TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty_memory_format);
  library.impl("empty_strided", empty_strided);
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("_local_scalar_dense", local_scalar_dense);
  library.impl("resize_", resize_);
  library.impl("as_strided", as_strided);
  library.impl("view", view);
  library.impl("_reshape_alias", reshape_alias);
  library.impl("unfold", unfold);
  library.impl("set_.source_Storage_storage_offset", set_to_part);
  library.impl("set_.source_Storage", set_to_whole);
}

// Autocast as CUDA has it, for what the models use.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  KERNEL_PRIVATEUSEONE(mm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(bmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(matmul, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(linear, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(addmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(scaled_dot_product_attention, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(layer_norm, fp32)
  KERNEL_PRIVATEUSEONE(softmax, int, fp32)
  KERNEL_PRIVATEUSEONE(log_softmax, int, fp32)
}

// The collectives of the devices: those of gloo, on the same memory seen from the host. gloo has no mean.
namespace {
using c10d::Work;
using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<Work>;

struct Finished final : Work {
  Finished() { finish(); }
  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds) override { return true; }
};

Tensors hosts(const Tensors& tensors) {
  Tensors seen;
  for (const auto& tensor : tensors) {
    TORCH_CHECK(tensor.device().type() == KIND, "standinccl needs tensors of the device");
    seen.push_back(host(tensor));
  }
  return seen;
}

struct Collectives final : c10d::Backend {
  c10::intrusive_ptr<c10d::Backend> gloo;
  Collectives(c10::intrusive_ptr<c10d::Backend> inner, int rank, int size)
      : c10d::Backend(rank, size), gloo(std::move(inner)) {}
  const std::string getBackendName() const override { return "standinccl"; }

  // Sum and divide; torch's own backends for accelerators compute the mean.
  template <typename Options, typename Reduce>
  WorkPtr reduce(Tensors results, const Options& given, Reduce reduce_with) {
    auto options = given;
    bool is_mean = given.reduceOp == c10d::ReduceOp::AVG;
    if (is_mean) options.reduceOp = c10d::ReduceOp::SUM;
    auto work = reduce_with(options);
    if (!is_mean) return work;
    work->wait();
    at::NoGradGuard no_grad;
    for (auto& result : results) result.div_(size_);
    return c10::make_intrusive<Finished>();
  }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    auto seen = hosts(tensors);
    return gloo->broadcast(seen, options);
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& given) override {
    auto seen = hosts(tensors);
    return reduce(seen, given, [&](const auto& options) { return gloo->allreduce(seen, options); });
  }
  WorkPtr allgather(std::vector<Tensors>& results, Tensors& inputs, const c10d::AllgatherOptions& options) override {
    std::vector<Tensors> seen;
    for (auto& tensors : results) seen.push_back(hosts(tensors));
    auto from = hosts(inputs);
    return gloo->allgather(seen, from, options);
  }
  WorkPtr _allgather_base(at::Tensor& result, at::Tensor& input, const c10d::AllgatherOptions& options) override {
    auto to = host(result), from = host(input);
    return gloo->_allgather_base(to, from, options);
  }
  WorkPtr _reduce_scatter_base(at::Tensor& result, at::Tensor& input,
                               const c10d::ReduceScatterOptions& given) override {
    auto to = host(result), from = host(input);
    return reduce({to}, given, [&](const auto& options) { return gloo->_reduce_scatter_base(to, from, options); });
  }
  WorkPtr allgather_into_tensor_coalesced(Tensors& results, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override {
    auto to = hosts(results), from = hosts(inputs);
    return gloo->allgather_into_tensor_coalesced(to, from, options);
  }
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& results, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& given) override {
    auto to = hosts(results), from = hosts(inputs);
    auto scatter = [&](const auto& options) { return gloo->reduce_scatter_tensor_coalesced(to, from, options); };
    return reduce(to, given, scatter);
  }
  WorkPtr barrier(const c10d::BarrierOptions& options) override { return gloo->barrier(options); }
};
}  // namespace

PYBIND11_MODULE(standin_c, module) {
  using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
  module.def("init", [](DeviceIndex count, long num_bytes) {
    num_devices = count;
    budget = num_bytes;
    static Hooks hooks;
    at::RegisterPrivateUse1HooksInterface(&hooks);
  });
  module.def("collectives", [](const BackendPtr& gloo, int rank, int size) -> BackendPtr {
    return c10::make_intrusive<Collectives>(gloo, rank, size);
  });
  module.def("generator", [](int index) { return at::detail::getPrivateUse1Hooks().getDefaultGenerator(index); });
  module.def("set_device", [](int index) { current = index; });
  module.def("current_device", [] { return static_cast<int>(current); });
  module.def("device_count", [] { return static_cast<int>(num_devices); });
  module.def("set_budget", [](long num_bytes) { budget = num_bytes; });
  module.def("counts", [] {
    return std::map<std::string, long>{{"waits", waits},   {"in_use", in_use}, {"peak", peak},
                                       {"budget", budget}, {"emptied", emptied}};
  });
  module.def("kernels", [] { return kernels; });
  module.def("reset", [] {
    waits = 0;
    peak = in_use.load();
    kernels.clear();
  });
}
