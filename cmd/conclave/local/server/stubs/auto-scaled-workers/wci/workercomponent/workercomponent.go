// Package workercomponent registers no worker: there is no compute provider to control.
package workercomponent

import "go.uber.org/fx"

// Module adds nothing to the server's worker service.
var Module = fx.Options()
