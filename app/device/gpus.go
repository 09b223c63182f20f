package device

import (
	"godwit/cuda"
	"godwit/engine/backend"
)

// gpus lists the GPU backends of this build.
func gpus() []backend.Driver { return []backend.Driver{cuda.NVIDIA(), cuda.AMD()} }
