//go:build simulation

package world

import _ "unsafe" // for go:linkname

// runtimeSeed is the state of the random numbers that the patched runtime uses in bubbles; see package simulation.
//
//go:linkname runtimeSeed runtime.simulation
var runtimeSeed uint64
