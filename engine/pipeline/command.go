package pipeline

// Command is something the driver must carry out, once, in the order given.
//
//sumtype:decl
type Command interface{ command() }

// Launch starts a segment of a step.
type Launch struct {
	ID   LaunchID `json:"id"`
	Step string   `json:"step"`
	Kind Kind     `json:"kind"`

	// After is the newest number of a segment: the new one claims the first free
	// number above it.
	After int `json:"after"`

	// Used is how many model calls earlier segments of the step made, of the Most
	// that it may make.
	Used int `json:"used,omitempty"`
	Most int `json:"most"`

	// Deepest says that calls are refused: as many callers wait as may.
	Deepest bool `json:"deepest,omitempty"`

	// Return is set on a segment that goes on after a call.
	Return *Return `json:"return,omitempty"`

	// History are the segments whose texts are shown, and Omitted is how many
	// earlier ones are not.
	History []Ref `json:"history,omitempty"`
	Omitted int   `json:"omitted,omitempty"`

	// Workspace is the hash of the manifest of the files that the segment begins
	// with; empty for none.
	Workspace string `json:"workspace,omitempty"`

	// Messages is how many human messages there are.
	Messages int `json:"messages,omitempty"`

	// ResumeFrom is the execution token of the attempt that this one goes on with:
	// one that was suspended, or that failed and is retried.
	ResumeFrom string `json:"resume_from,omitempty"`
}

// Return is what a caller goes on with.
type Return struct {
	Messages string `json:"messages"` // SHA-256 of the blob with its conversation
	Called   Ref    `json:"called"`   // the segment that the call came to
	Status   Status `json:"status"`   // of that segment
}

// Ref names the directory of a segment.
type Ref struct {
	Number int    `json:"n"`
	Step   string `json:"step"`
}

// Stop ends the running segment, which can go on later.
type Stop struct{ ID LaunchID }

// Hold has the team of a running session step pause. A session keeps what it has,
// and is not begun again.
type Hold struct{ ID LaunchID }

// Release has the team of a held session step go on.
type Release struct{ ID LaunchID }

// Ring tells the running segment how many human messages there are.
type Ring struct{ Messages int }

// Keep has the text of a human message written to the store, before anything
// that tells a step of it.
type Keep struct {
	Number int
	Text   string
}

// Done ends the run.
type Done struct{ Outcome Outcome }

// Outcome is how a run ended.
type Outcome struct {
	Status Status `json:"status"`
	Reason string `json:"reason,omitempty"` // why, for a person; empty if it just ended

	// Final is the segment whose text is that of the run; nil for none.
	Final *Ref `json:"final,omitempty"`
}

func (Launch) command()  {}
func (Stop) command()    {}
func (Hold) command()    {}
func (Release) command() {}
func (Ring) command()    {}
func (Keep) command()    {}
func (Done) command()    {}
