# The packages whose tests run GPU kernels on the emulator, and so need a C++
# compiler: stage emulator tests them, stage go leaves them out.
emulated='^godwit/(shaders|engine/gpu|cuda)(/|$)'

# The tests of the engine that run whole models on the emulator.
onkernels='OnKernels$'
