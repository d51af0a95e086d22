"""tmp"""
def design_of(claim): return None
