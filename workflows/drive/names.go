package drive

// TaskQueue is the default task queue of sessions, pipelines and scenario runs.
const TaskQueue = "conclave"

// StepsSuffix is appended to a workflow's task queue to form the queue of its steps. Steps can take
// half an hour and must not delay bookkeeping.
const StepsSuffix = "-steps"

// Queries that every workflow supports.
const (
	StateQuery    = "state"    // the State of the product
	TimelineQuery = "timeline" // the newest events, in order
)

// Verbs. Each is a signal and an update. An update is refused with a reason, or returns the new
// state without its large fields.
const (
	SaySignal    = "say"    // a message to the agents
	PauseSignal  = "pause"  // suspends running steps
	ResumeSignal = "resume" // ends a pause
	FinishSignal = "finish" // decide now with the present answers and votes
	RetrySignal  = "retry"  // run failed steps again

	ToolResultsSignal = "tool_results" // the results of calls of the caller's tools
)

// Types of errors that refuse updates.
const (
	// refused rejects a verb that is not possible in the current state.
	refused = "Refused"

	// TooEarly rejects an update that the workflow will soon accept, for example while it is being
	// prepared. A signal would wait instead.
	TooEarly = "TooEarly"
)

// InvalidInput is the type of the error with which a workflow fails immediately.
const InvalidInput = "InvalidInput"

// MaxInput is the maximum size in bytes of each of these: a query, a request, a configuration and
// evaluation criteria. An accepted input is in the history twice, and a payload of 2 MB would block
// the workflow.
const MaxInput = 256 << 10

// Memo keys that the workflows of several products set. They can be read without a worker.
const (
	MemoQuery   = "query"   // truncated, as the title of a scenario
	MemoStatus  = "status"  // running, paused, parked, or how the workflow ended
	MemoRound   = "round"   // round of a session
	MemoStep    = "step"    // the current step of a pipeline or scenario
	MemoOffline = "offline" // true if the built-in model plays the agents
	MemoPaused  = "paused"  // whether a person has paused the workflow; absent until it is prepared
	MemoParked  = "parked"  // the reason why the workflow waits for a person; empty if it does not

	// MemoContinues is the ID of the session whose conversation this session continues.
	MemoContinues = "continues"

	// MemoCaller and MemoRequest are set by a server that starts a session for a program. They are
	// the name of the caller's key and the hash of its request.
	MemoCaller  = "caller"
	MemoRequest = "request"
	// MemoTeam is set by a client that starts a session. It is the name of the team or of the file
	// that defines it.
	MemoTeam = "team"
	// MemoDoorbell is the doorbell that running steps read.
	MemoDoorbell = "doorbell"
)

// Values of MemoStatus. For a paused or parked workflow, the State still has the status Running.
const (
	Running   = "running"
	Paused    = "paused"
	Parked    = "parked"
	Cancelled = "cancelled"
)
