package device

import "godwit/engine/backend"

// gpus lists the GPU backends of this build.
func gpus() []backend.Driver { return nil }
