package worker

import (
	"bytes"
	"strings"
)

// shortest is the fewest bytes of a value that is taken for a secret: fewer
// would be found in ordinary text.
const shortest = 8

// redacted takes the place of a secret.
const redacted = "[redacted]"

// redact takes the values of this process's secret variables out of text: a key
// that a program printed is in no prompt, transcript or journal.
func redact(environ []string) func([]byte) []byte {
	var secrets [][]byte
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if isSecret(name) && len(value) >= shortest {
			secrets = append(secrets, []byte(value))
		}
	}
	return func(text []byte) []byte {
		for _, secret := range secrets {
			text = bytes.ReplaceAll(text, secret, []byte(redacted))
		}
		return text
	}
}

// isSecret goes by the names that the public contract demands of key variables,
// and by those of the AWS SDK and the Temporal CLI.
func isSecret(name string) bool {
	for _, end := range []string{"_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_KEY_DATA"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}
