package telemetry

import (
	"encoding/json"
	"net/http"
	"os"
	"runtime"
)

// vars answers /debug/vars in the form of package expvar. Unlike that package, it leaves out the arguments of the
// command line, which may hold a password for the database.
func vars(w http.ResponseWriter, _ *http.Request) {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(map[string]any{ // an error means that the client has disconnected
		"cmdline": os.Args[:1], "memstats": memory,
	})
}
