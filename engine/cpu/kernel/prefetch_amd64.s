#include "textflag.h"

// func prefetchForWrite(p *byte, n int)
// The instruction is PREFETCHW (SI). Processors without it treat it as a no-op.
TEXT ·prefetchForWrite(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX

again:
	BYTE $0x0F; BYTE $0x0D; BYTE $0x0E
	ADDQ $64, SI
	SUBQ $1, CX
	JNZ  again
	RET
