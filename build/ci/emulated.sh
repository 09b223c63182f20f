# The packages whose tests run GPU kernels on the emulator, which needs a C++
# compiler. The stage emulator tests them and the stage go leaves them out.
emulated='^godwit/(shaders|engine/gpu|cuda)(/|$)'

# The engine's tests that run whole models on the emulator.
onkernels='OnKernels$'
