# The packages whose tests run GPU kernels on the emulator, and so need a C++
# compiler: stage emulator tests them, stage go leaves them out.
emulated='^godwit/(shaders|engine/gpu|cuda)(/|$)'
