#include "textflag.h"

// func prefetchForWrite(p *byte, n int)
TEXT ·prefetchForWrite(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD n+8(FP), R1

again:
	PRFM (R0), PSTL1KEEP
	ADD  $64, R0
	SUBS $1, R1
	BNE  again
	RET
