package devserver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"go.temporal.io/server/common/log"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger makes Temporal's logger: warnings and worse, one JSON object a
// line. A fatal entry is Temporal's way to fail, also at start: it is told to
// fatal, and then the process ends.
func newLogger(w io.Writer, fatal func(error)) log.Logger {
	core := zapcore.NewCore(
		zapcore.NewJSONEncoder(log.DefaultZapEncoderConfig),
		zapcore.Lock(zapcore.AddSync(w)),
		zapcore.WarnLevel,
	)
	return log.NewZapLogger(zap.New(core, zap.WithFatalHook(fatalHook(fatal))))
}

// fatalHook ends the process after telling why.
type fatalHook func(error)

// OnWrite implements zapcore.CheckWriteHook.
func (tell fatalHook) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	reason := errors.New(entry.Message)
	for _, field := range fields {
		err, ok := field.Interface.(error)
		if !ok {
			continue
		}
		reason = fmt.Errorf("%s: %w", entry.Message, err)
		if errors.Is(err, syscall.EADDRINUSE) {
			reason = fmt.Errorf("%w: %w", reason, errPortTaken)
		}
	}
	tell(fmt.Errorf("start the Temporal server: %w", reason))
	os.Exit(1)
}
