# The packages whose tests run GPU kernels on the emulator, which needs a C++
# compiler. The emulator stage tests them, and the go stage leaves them out.
emulated='^godwit/(shaders|engine/gpu|cuda)(/|$)'

# The engine's tests that run whole models on the emulator.
onkernels='OnKernels$'
