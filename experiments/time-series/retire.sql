select retire_oldest();
