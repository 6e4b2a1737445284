package runs

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"conclave/cmd/conclave/cli"
	"conclave/engine/coordination"
	"conclave/workflows"
)

// keyHelp explains the keys.
const keyHelp = "p pause or resume · f decide now · s say something to the agents · o open the page · Ctrl-C stop watching, nothing is lost"

// keyboard steers a followed run by single keys below its block. It is safe for concurrent use.
type keyboard struct {
	follower *Follower

	mu      sync.Mutex
	last    *cli.Snapshot // shown last; nil before the first one
	entry   entry
	message []byte // text of a message or a reply that is being typed
	asked   []Question
	help    bool

	call Request  // the approval that Enter sends
	of   Question // the call that is shown for it
}

// entry is typed input.
type entry int

const (
	keyEntry     entry = iota // a key
	messageEntry              // a message to the agents
	replyEntry                // a reply to a question
	finishEntry               // whether to decide now
	callEntry                 // whether to allow the call that is shown
)

// listenToKeys steers the run by the keys of a person who sees its block, until stop is called.
func (f *Follower) listenToKeys(ctx context.Context) (stop func()) {
	keys := f.conn.OpenKeys(f.display)
	if keys == nil {
		return func() {}
	}
	f.keys = &keyboard{follower: f}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		keys.Listen(ctx, func(typed string) { f.keys.press(ctx, typed) })
	}()
	return func() {
		cancel()
		<-ended
		f.keys = nil
	}
}

// show shows a snapshot with the lines of the keyboard, if there is one.
func (f *Follower) show(s cli.Snapshot) {
	k := f.keys
	if k == nil {
		f.display.Show(s)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = f.run.Questions
	s.Keys, s.Prompt = true, k.promptLines()
	f.display.Show(s)
	s.News = nil
	k.last = &s
}

// press carries out keys that were typed together.
func (k *keyboard) press(ctx context.Context, typed string) {
	note := ""
	if request := k.take(typed); request.Verb != "" {
		note = k.follower.carryOut(ctx, request)
	}
	k.mu.Lock()
	again := k.last
	if note != "" {
		k.follower.display.Note(note)
	}
	k.mu.Unlock()
	if again != nil {
		k.follower.show(*again)
	}
}

// carryOut carries out a request and returns the part of its outcome that the block does not show.
func (f *Follower) carryOut(ctx context.Context, r Request) (note string) {
	if r.Verb == openVerb {
		if err := f.conn.OpenPage(f.run.page(f.conn.Pages)); err != nil {
			return err.Error()
		}
		return ""
	}
	if r.Question != "" {
		return f.answerQuestion(ctx, r)
	}
	_, err := Steer(ctx, f.conn, []*Kind{f.run.Kind}, f.run.Name(), r)
	switch {
	case err != nil:
		return err.Error()
	case r.Verb == workflows.SaySignal:
		return "said to all agents: " + r.Text
	}
	return ""
}

// answerQuestion sends the answer to a question.
func (f *Follower) answerQuestion(ctx context.Context, r Request) string {
	u, err := r.asUpdate()
	if err != nil {
		return err.Error()
	}
	at := slices.IndexFunc(f.keys.asked, func(q Question) bool { return q.QuestionID == r.Question })
	said := Told(f.conn, func(conn *cli.Connection) {
		err = applyUpdate(ctx, conn, f.run.ofQuestion(f.keys.asked[max(at, 0)]), u)
	})
	if err != nil {
		return err.Error()
	}
	return said
}

// openVerb opens the page of the run; it is no request to it.
const openVerb = "open"

// take reads typed input and returns the request that it completes, if any.
func (k *keyboard) take(typed string) (r Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case typed == "\x1b": // Escape
		k.entry, k.help = keyEntry, false
		return r
	case strings.HasPrefix(typed, "\x1b"): // a key such as an arrow
		return r
	case k.entry == messageEntry, k.entry == replyEntry:
		return k.takeText(typed)
	case k.entry == finishEntry:
		if k.entry = keyEntry; strings.EqualFold(typed, "y") {
			r.Verb = workflows.FinishSignal
		}
		return r
	case k.entry == callEntry:
		if k.entry = keyEntry; strings.Trim(typed, "\r\n") == "" {
			r = k.call
		}
		return r
	case len(k.asked) > 0 && (k.asked[0].QuestionKind != coordination.AskApproval || k.asked[0].isChoice()) && strings.HasPrefix(typed, "r"):
		k.entry, k.message = replyEntry, nil
		return k.takeText(typed[1:])
	case len(k.asked) > 0 && k.asked[0].QuestionKind != coordination.AskQuestion && (typed == "a" || typed == "d"):
		k.entry, k.of = callEntry, k.asked[0]
		k.call = Request{Verb: map[string]string{"a": workflows.ApproveSignal, "d": denyVerb}[typed], Question: k.of.QuestionID}
		return r
	case strings.HasPrefix(typed, "s"):
		k.entry, k.message = messageEntry, nil
		return k.takeText(typed[1:])
	}
	switch typed { // anything longer is a pasted text
	case "?":
		k.help = !k.help
	case "f":
		k.entry = finishEntry
	case "o":
		r.Verb = openVerb
	case "p":
		r.Verb = workflows.PauseSignal
		if k.last != nil && k.last.State.Paused {
			r.Verb = workflows.ResumeSignal
		}
	}
	return r
}

// takeText adds typed input to a message. Enter at the end sends it; before the end it is part of a
// pasted text. Escape drops it.
func (k *keyboard) takeText(typed string) (r Request) {
	text := strings.TrimRight(typed, "\r\n")
	for _, c := range []byte(text) {
		switch {
		case c == '\x1b':
			k.entry = keyEntry
			return r
		case c == 0x7f || c == '\b':
			_, size := utf8.DecodeLastRune(k.message)
			k.message = k.message[:len(k.message)-size]
		case c == 0x15: // Ctrl-U
			k.message = nil
		case c == '\r' || c == '\n' || c == '\t':
			k.message = append(k.message, ' ')
		case c >= ' ':
			k.message = append(k.message, c)
		}
	}
	if text == typed {
		return r
	}
	replies := k.entry == replyEntry
	k.entry = keyEntry
	said := strings.ToValidUTF8(strings.TrimSpace(string(k.message)), "")
	switch {
	case said == "", replies && len(k.asked) == 0:
		return r
	case !replies:
		return Request{Verb: workflows.SaySignal, Text: said}
	}
	r = Request{Verb: workflows.ReplySignal, Question: k.asked[0].QuestionID, Text: said}
	if n, err := strconv.Atoi(said); err == nil && n > 0 && n <= len(k.asked[0].Options) {
		r.Text, r.Option = "", n
	}
	return r
}

func (k *keyboard) promptLines() []string {
	width, _ := cli.TerminalWidth(k.follower.conn.Stderr)
	switch {
	case k.entry == messageEntry:
		typed := "  say to all agents (Enter sends, Esc drops it): " + cli.Line(string(k.message)) + "▏"
		return []string{ansi.TruncateLeft(typed, max(0, ansi.StringWidth(typed)-width+2), "…")}
	case k.entry == replyEntry && len(k.asked) > 0:
		typed := "  reply to " + cli.Line(k.asked[0].Agent) + ", a text or the number of an option (Enter sends, Esc drops it): " + cli.Line(string(k.message)) + "▏"
		return []string{ansi.TruncateLeft(typed, max(0, ansi.StringWidth(typed)-width+2), "…")}
	case k.entry == finishEntry:
		choice := "with no answer"
		if k.last != nil && k.last.State.Leader != "" {
			choice = "for " + k.last.State.Leader
		}
		return []string{"  decide now, " + choice + "? Running steps are ended. [y/N] "}
	case k.entry == callEntry:
		return k.callLines(width)
	case k.help:
		return strings.Split("  "+strings.ReplaceAll(ansi.Wordwrap(keyHelp, width-4, ""), "\n", "\n  "), "\n")
	case len(k.asked) > 0 && (k.asked[0].QuestionKind == coordination.AskQuestion || k.asked[0].isChoice()):
		return []string{"  " + cli.Line(k.asked[0].Agent) + " waits for you: press r to reply"}
	case len(k.asked) > 0:
		what := "it"
		if tool := k.asked[0].Tool; tool != "" {
			what = "the call of " + cli.Line(tool)
		}
		return []string{"  " + cli.Line(k.asked[0].Agent) + " waits for you: press a to approve " + what + ", d to deny it"}
	}
	return nil
}

// callLines shows a call whole before Enter allows or denies it.
func (k *keyboard) callLines(width int) []string {
	if k.of.Path != "" && k.call.Verb == workflows.ApproveSignal {
		k.entry = keyEntry
		return []string{"  the call is too long for this screen: look at it with `conclave inbox --full`, then approve it there"}
	}
	if k.of.Tool == "" { // of a step
		does := map[bool]string{true: "denies", false: "approves"}[k.call.Verb == denyVerb]
		asked := cli.Line(k.of.Agent) + " asks: " + cli.Line(k.of.Text)
		return append(strings.Split("  "+strings.ReplaceAll(ansi.Wrap(asked, width-4, ""), "\n", "\n  "), "\n"), "  Enter "+does+" it, any other key leaves it open")
	}
	shown := cli.Line(k.of.Agent) + " asks to call " + cli.Line(k.of.Tool) + " with " + cli.Line(k.of.Arguments)
	does := "allows"
	if k.call.Verb == denyVerb {
		does = "refuses"
	}
	return append(strings.Split("  "+strings.ReplaceAll(ansi.Wrap(shown, width-4, ""), "\n", "\n  "), "\n"), "  Enter "+does+" this call, any other key leaves it open")
}
