//go:build darwin && cgo

package mtl

// sel caches the selectors.
var sel struct {
	stringWithUTF8String, utf8String, code, localizedDescription     uintptr
	release, retain, respondsToSelector, alloc, initialise           uintptr
	count, objectAtIndex                                             uintptr
	hasUnifiedMemory, supportsFamily, newCommandQueue                uintptr
	newBuffer, newBufferNoCopy, contents                             uintptr
	newLibrary, newFunction, newPipeline, executionWidth, maxThreads uintptr
	setFastMath                                                      uintptr
	commandBuffer, computeEncoder, setPipeline, setBuffer, setBytes  uintptr
	dispatch, barrier, endEncoding, commit, wait, status, failure    uintptr
	newResidencySet, addAllocation, removeAllocation, requestSet     uintptr
	addResidencySet                                                  uintptr
}

// selectorNames maps the name of each selector to its field in sel.
var selectorNames = map[string]*uintptr{
	"stringWithUTF8String:": &sel.stringWithUTF8String, "UTF8String": &sel.utf8String, "code": &sel.code,
	"localizedDescription": &sel.localizedDescription, "release": &sel.release, "retain": &sel.retain,
	"respondsToSelector:": &sel.respondsToSelector, "alloc": &sel.alloc, "init": &sel.initialise,
	"count": &sel.count, "objectAtIndex:": &sel.objectAtIndex,
	"hasUnifiedMemory": &sel.hasUnifiedMemory, "supportsFamily:": &sel.supportsFamily, "newCommandQueue": &sel.newCommandQueue,
	"newBufferWithLength:options:": &sel.newBuffer, "newBufferWithBytesNoCopy:length:options:deallocator:": &sel.newBufferNoCopy,
	"contents":                            &sel.contents,
	"newLibraryWithSource:options:error:": &sel.newLibrary, "newFunctionWithName:": &sel.newFunction,
	"newComputePipelineStateWithFunction:error:": &sel.newPipeline, "threadExecutionWidth": &sel.executionWidth,
	"maxTotalThreadsPerThreadgroup": &sel.maxThreads, "setFastMathEnabled:": &sel.setFastMath,
	"commandBuffer": &sel.commandBuffer, "computeCommandEncoderWithDispatchType:": &sel.computeEncoder,
	"setComputePipelineState:": &sel.setPipeline, "setBuffer:offset:atIndex:": &sel.setBuffer,
	"setBytes:length:atIndex:": &sel.setBytes, "dispatchThreadgroups:threadsPerThreadgroup:": &sel.dispatch,
	"memoryBarrierWithScope:": &sel.barrier, "endEncoding": &sel.endEncoding, "commit": &sel.commit,
	"waitUntilCompleted": &sel.wait, "status": &sel.status, "error": &sel.failure,
	"newResidencySetWithDescriptor:error:": &sel.newResidencySet, "addAllocation:": &sel.addAllocation,
	"removeAllocation:": &sel.removeAllocation, "requestResidency": &sel.requestSet, "addResidencySet:": &sel.addResidencySet,
}
