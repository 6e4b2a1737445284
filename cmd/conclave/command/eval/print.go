package eval

import (
	"fmt"
	"strings"

	"conclave/cmd/conclave/cli"
	"conclave/engine/eval"
)

func printSummary(c *cli.CLI, s eval.Summary) error {
	if c.Scripted() {
		return c.PrintJSON(s)
	}
	return c.Print(summaryText(s))
}

func summaryText(s eval.Summary) string {
	var b strings.Builder
	b.WriteString(cli.Table(armTable(s)))
	if len(s.Pairs) > 0 {
		b.WriteString("\n" + cli.Table(pairTable(s.Pairs)) + eval.Judged + "\n")
	}
	if s.Team != nil {
		b.WriteString("\n" + explainTeam(*s.Team) + "\n")
	}
	if s.Replay != nil {
		b.WriteString("\n" + replayText(*s.Replay))
	}
	b.WriteString("\n" + s.Reason + "\n")
	return b.String()
}

func armTable(s eval.Summary) string {
	var b strings.Builder
	b.WriteString("ARM\tRIGHT\tACCURACY\t95 %\tUNPARSED\tFAILED\tTOKENS\tCACHED\tCOST\tCALLS\tSECONDS\n")
	for _, name := range s.Order {
		f := s.Arms[name]
		fmt.Fprintf(&b, "%s\t%d of %d\t%.3f\t%.3f to %.3f\t%d\t%d\t%s\t%s\t%s\t%d\t%.0f\n", name, f.Correct, f.N, f.Accuracy, f.CI95[0], f.CI95[1],
			f.Unparsed, f.Failed, cli.Count(f.Tokens), cli.Count(f.CachedTokens), f.Cost(), f.ModelCalls, f.Seconds)
	}
	return b.String()
}

func pairTable(pairs []eval.Pair) string {
	var b strings.Builder
	b.WriteString("DIFFERENCE\tPOINTS\t95 %\tP\tQUESTIONS NEEDED\n")
	for _, p := range pairs {
		needed := "-"
		if p.Needed != nil {
			needed = fmt.Sprintf("about %d", *p.Needed)
		}
		fmt.Fprintf(&b, "%s less %s\t%+.1f\t%+.1f to %+.1f\t%s\t%s\n", p.A, p.B, 100*p.Difference, 100*p.CI95[0], 100*p.CI95[1], p.Probability(), needed)
	}
	return b.String()
}

func explainTeam(t eval.TeamFigures) string {
	judging := "No vote was cast where right and wrong answers were shown."
	if t.Judging != nil {
		judging = fmt.Sprintf("Where right and wrong answers were shown, %.0f %% of %s were for a right one; chance alone gives %.0f %%.",
			100**t.Judging, cli.Plural(t.Votes, "vote"), 100**t.ByChance)
	}
	return fmt.Sprintf("%.0f %% of the first answers are right; %.0f %% of the questions have a right one. %s\nAgainst the vote of its first answers the team has helped %d and hurt %d; %s lost.",
		100*t.FirstRight, 100*t.AnyRight, judging, t.Helped, t.Hurt, lostAgents(t.Lost))
}

func lostAgents(n int) string {
	if n == 1 {
		return "1 agent was"
	}
	return fmt.Sprintf("%d agents were", n)
}
