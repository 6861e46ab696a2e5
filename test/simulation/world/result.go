package world

import "time"

// The environment of the test that runs one seed: the seed, the file for the result and, optionally, one for the log.
const (
	SeedVariable   = "SQLSTORE_SIMULATION_SEED"
	ResultVariable = "SQLSTORE_SIMULATION_RESULT"
	LogVariable    = "SQLSTORE_SIMULATION_LOG"
)

// Result is what a run reports.
type Result struct {
	Seed     uint64
	Plan     string
	Time     time.Duration // virtual
	Requests int           // of clients
	Steps    uint64        // that went into Hash
	Hash     uint64        // identifies everything that happened, in order
	Faults   map[string]int
	Problems []string // what is wrong
}

// Result checks a run that has ended, and describes it.
func (w *World) Result() Result {
	return Result{
		Seed: w.seed, Plan: w.plan.String(), Time: w.lasted, Requests: len(w.journal.Ops()), Steps: w.trace.steps,
		Hash: w.trace.hash, Faults: w.faults, Problems: w.check(),
	}
}
