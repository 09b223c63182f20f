package device

import (
	"godwit/cuda"
	"godwit/engine/backend"
	"godwit/metal"
)

// gpus lists the GPU backends, the preferred first.
func gpus() []backend.Driver { return []backend.Driver{metal.Driver(), cuda.NVIDIA(), cuda.AMD()} }
