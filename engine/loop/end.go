package loop

import "fmt"

// RejectedError says that the model used up its attempts.
type RejectedError struct {
	Attempts int
	Reason   string // code of the last rejection
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("no valid action after %d attempts (last rejection: %s)", e.Attempts, e.Reason)
}

// TimeOverError says that the agent went on with calls that were no longer open
// to it when its time was over. Updates returns it; Run passes it on as it is.
type TimeOverError struct{ Denials int }

func (e *TimeOverError) Error() string {
	return fmt.Sprintf("no action: the step's time was over, and %d calls that could not be made any more were denied; "+
		"timeout_settings can give it more time", e.Denials)
}

// ModelCallsError says that the step made as many model calls as it may
// without coming to an action.
type ModelCallsError struct{ Calls int }

func (e *ModelCallsError) Error() string {
	return fmt.Sprintf("no action after %d model calls", e.Calls)
}

// Why a step ends itself.
const (
	EndRestart   = "restart"   // there is news that it can only begin anew with
	EndAllowance = "allowance" // what it may spend is spent
)

// EndedError says that the step ended itself without an action, which is no
// failure. Updates and Confirm return it; Run passes it on as it is.
type EndedError struct{ Why string }

func (e *EndedError) Error() string {
	return "the step ended itself without an action: " + e.Why
}
