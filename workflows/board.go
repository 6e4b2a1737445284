package workflows

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/text"
)

// Board builds the Markdown that the Web UI shows as the current details of a workflow.
type Board struct{ strings.Builder }

// Print appends formatted text.
func (b *Board) Print(format string, args ...any) {
	fmt.Fprintf(b, format, args...) //workflowcheck:ignore // a buffer is deterministic
}

// Headline appends a line with the status, further detail and the usage.
func (b *Board) Headline(status, detail string, u llm.Usage) {
	b.Print("**%s** · %s · %d tokens, %d calls", status, detail, u.InputTokens+u.OutputTokens, u.ModelCalls)
	if u.TotalUSD != nil {
		b.Print(", $%.4f", *u.TotalUSD)
	}
	b.WriteString("\n\n")
}

// Quote appends a text from the input as a block quote.
func (b *Board) Quote(s string) {
	b.Print("> %s\n\n", text.Markdown(text.Truncate(s, 2000)))
}

// Question appends an open question to a person and the command that answers it. The ID of the run is quoted.
func (b *Board) Question(id string, q coordination.Question) {
	answer := "approve " + id + " " + q.QuestionID
	switch {
	case q.TakesOption():
		answer = "reply " + id + " " + q.QuestionID + " --option 1"
	case q.QuestionKind == coordination.AskQuestion:
		answer = "reply " + id + " " + q.QuestionID
	}
	b.Print("**Waits for a person** since %s: %s: %s\n\n`conclave %s`\n\n", q.Since.UTC().Format("15:04:05 UTC"), q.Agent, text.Markdown(q.Text), answer)
}

// Ignored appends the last signal that could not be decoded, if any.
func (b *Board) Ignored(signal string) {
	if signal != "" {
		b.Print("**Ignored:** the signal %s\n\n", text.Markdown(signal))
	}
}

// Files appends the directory of the file at url, unless url is empty.
func (b *Board) Files(url string) {
	if url != "" {
		b.Print("\nFiles: `%s`\n", url[:strings.LastIndex(url, "/")+1])
	}
}

// Memo sets the memo of a workflow. Each upsert adds an event to the history, so one upsert
// contains all fields that changed and no others.
type Memo struct {
	// Bell is the doorbell. It is set as MemoDoorbell once it has been rung.
	Bell coordination.Ring

	fields map[string]any // the memo's fields as last set
	epoch  int            // the bell's epoch when it was last set
}

// RingMessages rings the doorbell for the messages numbered above after, up to last.
func (m *Memo) RingMessages(after, last int) {
	m.Bell.Epoch++
	m.Bell.Messages = nil
	for n := after + 1; n <= last; n++ {
		m.Bell.Messages = append(m.Bell.Messages, coordination.Message{Number: n})
	}
}

// bounds has the lengths, in bytes, to which long fields are truncated.
var bounds = map[string]int{MemoQuery: 200, MemoParked: 500}

// Set upserts the fields whose values differ from the last ones, and the bell if it was rung.
// Values must be comparable.
func (m *Memo) Set(ctx workflow.Context, fields map[string]any) {
	if m.fields == nil {
		m.fields = map[string]any{}
	}
	changed := map[string]any{}
	//workflowcheck:ignore // the order makes no difference
	for key, value := range fields {
		if s, ok := value.(string); ok && bounds[key] > 0 {
			value = text.Truncate(s, bounds[key])
		}
		if m.fields[key] != value {
			m.fields[key], changed[key] = value, value
		}
	}
	if m.Bell.Epoch != m.epoch {
		m.epoch, changed[MemoDoorbell] = m.Bell.Epoch, m.Bell
	}
	if len(changed) == 0 {
		return
	}
	if err := workflow.UpsertMemo(ctx, changed); err != nil {
		workflow.GetLogger(ctx).Error("the memo could not be set", "error", err)
	}
}

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

	ReplySignal   = "reply"   // a person's reply to a question
	ApproveSignal = "approve" // a person allows or refuses a call
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
	MemoQuery    = "query"    // truncated, as the title of a scenario
	MemoStatus   = "status"   // running, paused, parked, or how the workflow ended
	MemoRound    = "round"    // round of a session
	MemoWinner   = "winner"   // label of a session's winner; empty before the decision
	MemoStep     = "step"     // the current step of a pipeline or scenario
	MemoOffline  = "offline"  // true if no model server is asked
	MemoRecorded = "recorded" // true if agents answer with recorded answers
	MemoPaused   = "paused"   // whether a person has paused the workflow; absent until it is prepared
	MemoParked   = "parked"   // the reason why the workflow waits for a person; empty if it does not

	// MemoQuestions is the JSON of the open questions to people, as in the state; long ones
	// are shortened and have a Path. It is absent before the first question.
	MemoQuestions = "questions"

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

// Values of MemoStatus. For a paused, parked or waiting workflow, the State still has the status Running.
const (
	Running   = "running"
	Paused    = "paused"
	Parked    = "parked"
	Waiting   = "waiting" // questions to people are open
	Cancelled = "cancelled"
)

// maxQuestions bounds the questions in the memo, in bytes.
const maxQuestions = 2 << 10

// ShortQuestions returns the JSON of questions for the memo. Questions that are too long are shortened to a line.
//
//workflowcheck:ignore // their JSON is the same in every run
func ShortQuestions(open []coordination.Question) string {
	if len(open) == 0 {
		return ""
	}
	const most = 10
	open = slices.Clone(open[:min(len(open), most)])
	data, err := json.Marshal(open)
	for i := 0; err == nil && len(data) > maxQuestions && i < len(open); i++ {
		q := &open[i]
		q.Path, q.Arguments, q.Why, q.Options = cmp.Or(q.Path, "questions/"+q.QuestionID+".json"), "", "", []string{}
		q.Text = text.Truncate(q.Text, maxQuestions/most/2)
		data, err = json.Marshal(open)
	}
	if err != nil {
		return ""
	}
	return string(data)
}
