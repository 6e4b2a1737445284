package page

import (
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/test/stage"
)

var (
	sectionOf = regexp.MustCompile(`(?s)<section id="(decision|why|steps|cost)".*?</section>`)
	factOf    = regexp.MustCompile(`(?s)<dt>([^<]*)</dt>(.*?)</div>`)
)

// The page answers ten questions as the ledger does, for sessions of every kind of end.
func TestWrite_questions(t *testing.T) {
	t.Parallel()
	require.GreaterOrEqual(t, len(stage.Scripts), 20)
	for _, script := range stage.Scripts {
		t.Run(script.Name, func(t *testing.T) {
			t.Parallel()
			p := script.Play(t)
			require.NotNil(t, p.Decision(), "the session has not ended")
			source := drawn(t, p)
			parts := map[string]string{}
			for _, m := range sectionOf.FindAllStringSubmatch(source, -1) {
				parts[m[1]] = plainText(m[0])
			}
			for _, m := range factOf.FindAllStringSubmatch(source, -1) {
				parts[m[1]] = plainText(m[2])
			}
			questions := p.Questions()
			require.Len(t, questions, 10)
			for _, q := range questions {
				told := parts[q.Where]
				if strings.ToLower(q.Where) == q.Where { // a section, which each page has
					require.NotEmpty(t, told, q.Asked)
				} else if len(q.Wants) == 0 {
					require.Empty(t, told, "%s: what did not happen is no fact", q.Asked)
				}
				for _, want := range q.Wants {
					require.Contains(t, told, want, q.Asked)
				}
				for _, never := range q.Never {
					if len(q.Wants) == 0 {
						require.NotContains(t, told, never, q.Asked)
					}
				}
			}
		})
	}
}

// plainText is the text of a part of a page, without the space that tags would add.
func plainText(part string) string {
	part = regexp.MustCompile(`</(p|dd|h2|li)>`).ReplaceAllString(part, " ")
	part = regexp.MustCompile(`<[^>]*>`).ReplaceAllString(part, "")
	return strings.Join(strings.Fields(html.UnescapeString(part)), " ")
}
