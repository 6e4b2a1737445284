package start

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/text"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

func (sessionReporter) PrintResult(ctx context.Context, conn *cli.Connection, run runs.Run, r sessionflow.Result) error {
	var err error
	switch {
	case conn.Data && r.Data == nil:
		err = cli.Exitf(cli.ExitNoAnswer, "%s has no data: its answers are texts, or it has none; `%s` prints the result", run, conn.CommandLine("result", run.Name()))
	case conn.Data:
		err = conn.Print(string(r.Data) + "\n")
	case conn.Scripted():
		err = conn.PrintJSON(r)
	case r.AnswerPath != nil:
		err = printAnswer(ctx, conn, r)
	}
	if err != nil {
		return err
	}
	reportBroken(ctx, conn, r.SessionID)
	if note, _ := run.ExplainOffline(); note != "" {
		conn.Infof("%s", note)
	}
	if r.Winner == "" {
		if sessionExitCode(r) == cli.ExitNoAnswer {
			i := slices.IndexFunc(r.Failed, func(f coordination.FailedAgent) bool { return f.Error.Type == "NoAction" })
			if i >= 0 && !conn.Scripted() {
				conn.Infof("`%s` shows what the model said", conn.CommandLine("transcript", r.SessionID, r.Failed[i].ID, "last"))
			}
			if r.Agents > 0 { // the session was prepared
				runs.SuggestRetry(conn, run, r.Status)
			}
		}
		return &cli.ExitError{Code: sessionExitCode(r), Err: noAnswer(r)}
	}
	switch coordination.Status(r.Status) {
	case coordination.Timeout:
		conn.Infof("the session's time ran out: this is the best answer so far; give it more with timeout_settings.orchestrator_timeout_seconds")
	case coordination.OverSpent:
		conn.Infof("the session's budget ran out: this is the best answer so far; give it more with orchestrator.budget")
	case coordination.Undecided:
		conn.Infof("undecided: this is the best answer, but %s; `%s` tells the agents more and `%s` has them vote again, or change orchestrator.act_when",
			describeSupport(r), conn.CommandLine("say", run.Name(), "TEXT"), conn.CommandLine("retry", run.Name()))
	}
	return cli.Exit(sessionExitCode(r))
}

func describeSupport(r sessionflow.Result) string {
	if r.Support == nil {
		return "it has too little support"
	}
	return fmt.Sprintf("only %.0f %% of the active agents support it", 100*r.Support.Share)
}

// sessionExitCode returns the exit code for a result. Input that a worker refused is a usage error.
func sessionExitCode(r sessionflow.Result) int {
	if r.Error != nil && runs.RefusedInput(r.Error.Type) {
		return cli.ExitUsage
	}
	switch coordination.Status(r.Status) {
	case coordination.Consensus, coordination.Plurality, coordination.Finished, coordination.Limit,
		coordination.Presented, coordination.OverSpent:
		return cli.ExitOK
	case coordination.Timeout:
		return cli.ExitTimeout
	default: // undecided, failed, cancelled, running
		return cli.ExitNoAnswer
	}
}

// printAnswer prints the full answer on stdout and how it was decided on stderr. The best text of a
// failed session is printed, too.
func printAnswer(ctx context.Context, conn *cli.Connection, r sessionflow.Result) error {
	if err := runs.PrintText(ctx, conn, artifact.InBucket(r.SessionID), runs.Text{Content: r.Answer, Truncated: r.AnswerTruncated, Path: r.AnswerPath}); err != nil {
		return err
	}
	if r.Winner == "" {
		conn.Infof("\nnobody has decided for this: every agent failed, and it is the best text of those that they gave")
		return nil
	}
	how := describeDecision(r)
	if r.NoShell != "" {
		conn.Infof("\nnothing was run, no test and no program: agents could not run commands: %s", r.NoShell)
	}
	conn.Summarize(fmt.Sprintf("%s (%s)%s %s%s · %s · %s · %s", r.Winner, r.WinnerLabel, describePresenter(r), how, describeTurnout(r),
		cli.Plural(r.Rounds, "round"), cli.FinalCost(r.Cost), cli.Clock(time.Duration(r.DurationSeconds*float64(time.Second)))))
	conn.Infof("why it won, and how it came about: %s", conn.CommandLine("view", r.SessionID))
	conn.Infof("all answers, votes and files: %s", runs.PullCommand(conn, r.SessionID, r.AnswerPath, "/sessions/"))
	return nil
}

// describePresenter says who wrote the final answer if it is not the winner's own.
func describePresenter(r sessionflow.Result) string {
	switch {
	case r.PresentedBy == nil || *r.FinalLabel == r.WinnerLabel:
		return ""
	case *r.PresentedBy == r.Winner:
		return ", presented as " + *r.FinalLabel + ","
	}
	return ", presented by " + *r.PresentedBy + " as " + *r.FinalLabel + ","
}

func describeDecision(r sessionflow.Result) string {
	how := r.Status
	if s := coordination.Status(r.Status); s == coordination.Consensus || s == coordination.Plurality {
		how = "by " + how
	}
	switch {
	case r.DecidedBy == coordination.BySkill:
		return how + " · a tie, decided by the agents' skill"
	case coordination.Status(r.Status) == coordination.Presented:
		return "by presentation, without a vote"
	case r.DecidedBy == coordination.ByAgreement:
		return how + " · equal first answers, without a vote"
	}
	votes := "without a fresh vote"
	if n := r.Votes[r.Winner]; n > 0 {
		votes = cli.Plural(n, "fresh vote")
	}
	how += " · " + votes
	if r.DecidedBy == coordination.ByChecks {
		how += ", ahead by checks"
	}
	switch cut := strings.Join(r.Cut, ", "); {
	case r.DecidedBy == coordination.ByQuorum && cut != "":
		how += ", a quorum · " + cut + " " + coordination.CutOff
	case r.DecidedBy == coordination.ByQuorum:
		how += ", a quorum"
	case cut != "":
		how += " without " + cut
	}
	return how
}

// describeTurnout says how many agents have a fresh vote if some have none. It also names the
// failed agents and a broken tie.
func describeTurnout(r sessionflow.Result) string {
	said, counts := []string{""}, []string{}
	voted := coordination.Status(r.Status) != coordination.Presented && r.DecidedBy != coordination.ByAgreement
	if voted && len(r.Voters) < r.Agents {
		counts = append(counts, fmt.Sprintf("%d of %d voted", len(r.Voters), r.Agents))
	}
	if len(r.Failed) > 0 {
		failed := text.Each(r.Failed, func(f coordination.FailedAgent) string { return f.ID + " (" + f.Error.Type + ")" })
		counts = append(counts, fmt.Sprintf("%d failed: %s", len(failed), strings.Join(failed, ", ")))
	}
	if len(counts) > 0 {
		said = append(said, strings.Join(counts, ", "))
	}
	if r.Earlier {
		said = append(said, "an earlier attempt of the team; the last one decided nothing")
	}
	if len(r.Tie) > 0 {
		said = append(said, "a tie of "+strings.Join(r.Tie, ", "))
	}
	return strings.Join(said, " · ")
}

func noAnswer(r sessionflow.Result) error {
	if r.Status == workflows.Cancelled {
		return fmt.Errorf("session %s was cancelled; the files recorded until then can be pulled", r.SessionID)
	}
	if r.Error != nil {
		return fmt.Errorf("session %s failed: %s", r.SessionID, cmp.Or(r.Error.Message, r.Error.Type))
	}
	return fmt.Errorf("session %s ended as %s without an answer: no agent has one", r.SessionID, r.Status)
}
