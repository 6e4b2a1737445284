package coordination

import "cmp"

// Reckons is the first protocol in which the driver reads the usage of a step from the
// store if the step ended without reporting it.
const Reckons = 3

// rest returns a step that was suspended or failed. Without a model call its usage is
// zero or unknown.
func (s *State) rest(run *Launch, e End, token string) *resumableStep {
	return &resumableStep{Launch: *run, Token: token, Uncounted: s.Protocol >= Reckons && e.Usage.ModelCalls == 0}
}

// filesOf returns the token of the replaced step whose files a new step is given.
func (s *State) filesOf(replaced *resumableStep) string {
	if replaced == nil || s.Protocol < Reckons {
		return ""
	}
	return cmp.Or(replaced.Token, replaced.Launch.ResumeFrom)
}
