package pagesum

/*
#include <stdlib.h>
#include "vfs.h"
*/
import "C"

import "unsafe"

// UseTempDir makes SQLite create its temporary files in dir, for all databases of this process, as long as dir exists
// and can be written.
func UseTempDir(dir string) {
	name := C.CString(dir)
	defer C.free(unsafe.Pointer(name))
	C.use_temp_dir(name)
}
